import { plantedKey } from "./protocol.ts";
import { interleave, medianOf } from "./ratio.ts";
import type { Bench } from "./service.ts";

/** How much is measured. Enough for the figures in docs/performance.md, or, for a test, as little as shows that it works. */
export interface Effort {
  rounds: number;
  /** Requests in a row, or at once, that make one measure. */
  requests: number;
  /** Runs of the cron that are timed while nothing else happens. */
  sweeps: number;
}

/** To a database in another region and back, ms. */
const D1_DELAY_MS = 20;
/** At once, where throughput is measured: enough to fill the time that the others wait. */
const LANES = 4;

let names = 0;
const freshKeys = (count: number) => Array.from({ length: count }, () => `bench-${names++}`);

interface Asked {
  /** POST /orders, unless given. */
  path?: string;
  /** Whether the keys are completed already. */
  isReplay?: boolean;
  /** Whether somebody else holds the claim. */
  isHeld?: boolean;
}

/** What is put to the service, by the words of the report. */
const VARIANTS = {
  unprotected: { path: "/lab/orders/no-key" },
  "protected, fresh": {},
  "protected, replay": { isReplay: true },
  "protected, in progress": { isHeld: true },
  "select, then insert": { path: "/lab/orders/select-then-insert" },
  "two transactions": { path: "/lab/orders/two-transactions" },
  "claim without a fence": { path: "/lab/orders/unfenced" },
} satisfies Record<string, Asked>;
export type Variant = keyof typeof VARIANTS;

const everyVariant = Object.keys(VARIANTS) as Variant[];

/** Keys for so many requests of a variant. Held claims have to be made anew: a lease is short. */
async function keysFor(bench: Bench, variant: Variant, count: number): Promise<string[]> {
  const { isReplay, isHeld }: Asked = VARIANTS[variant];
  if (isReplay === true) return Array.from({ length: count }, (_, number) => plantedKey(number));
  if (isHeld !== true) return freshKeys(count);
  await bench.hold("held");
  return Array.from({ length: count }, () => "held");
}

async function driveVariant(
  bench: Bench,
  variant: Variant,
  { count, ...load }: { count: number; lanes?: number; d1DelayMs?: number },
) {
  const { path = "/orders", isHeld = false }: Asked = VARIANTS[variant];
  const keys = await keysFor(bench, variant, count);
  return bench.drive({ path, keys, status: isHeld ? 409 : 201, ...load });
}

export interface Cost {
  roundTrips: number;
  rowsWritten: number;
}

/**
 * Of one request each, as they are in a row: what comes once in a while, the look at the account and the sweep that finds
 * nothing and then rests, comes to the request before.
 */
export async function countCosts(bench: Bench): Promise<Record<Variant, Cost>> {
  const counted: [Variant, Cost][] = [];
  for (const variant of everyVariant) {
    await bench.drive({ keys: freshKeys(1) });
    const { roundTrips, rowsWritten } = await driveVariant(bench, variant, { count: 1 });
    counted.push([variant, { roundTrips, rowsWritten }]);
  }
  return Object.fromEntries(counted) as Record<Variant, Cost>;
}

/** Durations of every variant, in rounds: one after the other, and some at once. */
export interface Speeds {
  inTurn: Record<Variant, number[]>;
  atOnce: Record<Variant, number[]>;
}

/** With the database beside the service, and in another region. */
export async function timeVariants(
  bench: Bench,
  { rounds, requests: count }: Effort,
): Promise<{ near: Speeds; far: Speeds }> {
  const time = (load: { lanes?: number; d1DelayMs?: number }) => {
    const measures = everyVariant.map((variant) => [
      variant,
      async () => (await driveVariant(bench, variant, { count, ...load })).ms,
    ]);
    return interleave<Variant>(rounds, Object.fromEntries(measures));
  };
  const timeAt = async (d1DelayMs: number): Promise<Speeds> => ({
    inTurn: await time({ d1DelayMs }),
    atOnce: await time({ d1DelayMs, lanes: LANES }),
  });
  return { near: await timeAt(0), far: await timeAt(D1_DELAY_MS) };
}

/** Durations of fresh orders and of replays, by the rows in the ledger, in rounds over all sizes. */
export async function timeSizes(benches: readonly Bench[], { rounds, requests: count }: Effort) {
  const measures = benches.flatMap((bench) => {
    const anywhere = () =>
      Array.from({ length: count }, () => plantedKey(Math.floor(Math.random() * bench.rows)));
    return [
      [`fresh ${bench.rows}`, async () => (await bench.drive({ keys: freshKeys(count) })).ms],
      [`replay ${bench.rows}`, async () => (await bench.drive({ keys: anywhere() })).ms],
    ] as const;
  });
  const seen = await interleave(rounds, Object.fromEntries(measures));
  return benches.map(({ rows }) => ({
    rows,
    fresh: seen[`fresh ${rows}`]!,
    replay: seen[`replay ${rows}`]!,
  }));
}

/**
 * Times the cron's sweep of a ledger of which every row has expired, and then orders while what is left is swept.
 *
 * @param idle Where there is nothing to sweep.
 */
export async function timeSweeps(
  { idle, full }: { idle: Bench; full: Bench },
  { rounds, requests: count, sweeps }: Effort,
) {
  await full.expire();
  const alone = { runs: 0, ms: 0, evicted: 0, rowsWritten: 0 };
  for (; alone.runs < sweeps; alone.runs++) {
    const { ms, evicted, rowsWritten } = await full.sweep();
    alone.ms += ms;
    alone.evicted += evicted;
    alone.rowsWritten += rowsWritten;
  }
  const orders = async (bench: Bench) => (await bench.drive({ keys: freshKeys(count) })).ms;
  const beside = await interleave(rounds, {
    "nothing to sweep": () => orders(idle),
    "swept by requests": () => orders(full),
    "swept by the cron, too": () => whileSweeping(full, () => orders(full)),
  });
  const orderMs = medianOf(beside["nothing to sweep"]) / count;
  return { beside, alone, orderMs };
}

async function whileSweeping<Result>(bench: Bench, work: () => Promise<Result>): Promise<Result> {
  const over = new AbortController();
  const cron = (async () => {
    while (!over.signal.aborted) await bench.sweep();
  })();
  try {
    return await work();
  } finally {
    over.abort();
    await cron;
  }
}
