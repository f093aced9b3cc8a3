import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { ROOT } from "../local-service.ts";
import { barsOf, linesOf } from "./charts.ts";
import type { Cost, Speeds, timeSizes, timeSweeps, Variant } from "./experiments.ts";
import { inverse, type Ratio, ratioOf } from "./ratio.ts";

/** All that was counted and timed. */
export interface Results {
  costs: Record<Variant, Cost>;
  variants: { near: Speeds; far: Speeds };
  sizes: Awaited<ReturnType<typeof timeSizes>>;
  sweeps: Awaited<ReturnType<typeof timeSweeps>>;
}

/** D1's list price of a million rows written, USD: https://developers.cloudflare.com/d1/platform/pricing/ */
const USD_PER_MILLION_ROWS = 1;

/** The tables of docs/performance.md, by the name of their place in it. */
export function tablesOf(results: Results): Record<string, string> {
  return {
    costs: costTable(results),
    latency: variantTable(results, "inTurn"),
    throughput: variantTable(results, "atOnce"),
    sizes: sizeTable(results),
    sweeps: sweepTable(results),
    eviction: evictionTable(results),
    goals: goalTable(results),
  };
}

function costTable({ costs, sweeps }: Results): string {
  const perKey = sweeps.alone.rowsWritten / sweeps.alone.evicted;
  const rows = Object.entries(costs).map(([variant, { roundTrips, rowsWritten }]) => [
    variant,
    roundTrips,
    rowsWritten,
    (rowsWritten * USD_PER_MILLION_ROWS).toFixed(2),
  ]);
  const evicted = perKey.toFixed(2);
  rows.push(["one key, evicted by the cron", "–", evicted, evicted]);
  return tableOf(["", "D1 round trips", "rows written", "USD for a million"], rows);
}

function variantTable({ variants }: Results, how: keyof Speeds): string {
  const { near, far } = variants;
  const ratio = (speeds: Speeds, variant: Variant) => {
    const slower = ratioOf(speeds[how][variant], speeds[how].unprotected);
    return spreadOf(how === "inTurn" ? slower : inverse(slower));
  };
  const rows = variantsOf(near).map((variant) => [
    variant,
    ratio(near, variant),
    ratio(far, variant),
  ]);
  return tableOf(["", "database beside it", "20 ms a round trip"], rows);
}

function sizeTable({ sizes }: Results): string {
  const [smallest] = sizes;
  const rows = sizes.map(({ rows: count, fresh, replay }) => [
    count.toLocaleString("en"),
    spreadOf(ratioOf(fresh, smallest!.fresh)),
    spreadOf(ratioOf(replay, smallest!.replay)),
  ]);
  return tableOf(["rows in the ledger", "fresh", "replay"], rows);
}

function sweepTable({ sweeps: { beside } }: Results): string {
  const rows = Object.entries(beside).map(([state, ms]) => [
    state,
    spreadOf(ratioOf(ms, beside["nothing to sweep"])),
  ]);
  return tableOf(["orders meanwhile", "latency"], rows);
}

function evictionTable({ sweeps: { alone, orderMs } }: Results): string {
  const { runs, ms, evicted } = alone;
  const whole = (count: number) => Math.round(count).toLocaleString("en");
  return tableOf(
    ["the cron alone evicts", "keys"],
    [
      ["in a run", whole(evicted / runs)],
      ["in the time that a fresh order takes", whole((evicted / ms) * orderMs)],
      ["in a second, on that machine", whole((evicted / ms) * 1000)],
    ],
  );
}

/** What the project promises itself, and what was seen. */
function goalTable({ variants, sizes }: Results): string {
  const { near, far } = variants;
  const isSlower = (speeds: Record<Variant, number[]>, than: Variant, variant: Variant) =>
    ratioOf(speeds[variant], speeds[than]);
  const fresh = "protected, fresh";
  const replay = "protected, replay";
  const large = sizes.at(-1)!;
  const small = sizes[0]!;
  const goals: [goal: string, ratio: Ratio, isMet: (median: number) => boolean][] = [
    [
      "fresh, 20 ms a round trip: latency at most 1.1 of the unprotected",
      isSlower(far.inTurn, "unprotected", fresh),
      (x) => x <= 1.1,
    ],
    [
      "fresh, 20 ms a round trip: throughput at least 0.9 of it",
      inverse(isSlower(far.atOnce, "unprotected", fresh)),
      (x) => x >= 0.9,
    ],
    [
      "replay, 20 ms a round trip: throughput at least 1.5 of a fresh order's",
      inverse(isSlower(far.atOnce, fresh, replay)),
      (x) => x >= 1.5,
    ],
    [
      "replay, database beside it: the same",
      inverse(isSlower(near.atOnce, fresh, replay)),
      (x) => x >= 1.5,
    ],
    [
      "fresh, largest ledger: latency at most 1.2 of the smallest's",
      ratioOf(large.fresh, small.fresh),
      (x) => x <= 1.2,
    ],
    ["replay, largest ledger: the same", ratioOf(large.replay, small.replay), (x) => x <= 1.2],
  ];
  const rows = goals.map(([goal, ratio, isMet]) => [
    goal,
    spreadOf(ratio),
    isMet(ratio.median) ? "met" : "missed",
  ]);
  return tableOf(["goal", "measured", ""], rows);
}

/** Puts the tables into performance.md, and draws the charts in the folder beside it. */
export async function publish(results: Results, docs = join(ROOT, "docs")): Promise<void> {
  const path = join(docs, "performance.md");
  let page = await readFile(path, "utf8");
  for (const [name, table] of Object.entries(tablesOf(results))) {
    page = withTable(page, { name, table });
  }
  await writeFile(path, page);
  for (const [name, svg] of Object.entries(chartsOf(results))) {
    await writeFile(join(docs, "performance", `${name}.svg`), svg);
  }
}

function withTable(page: string, { name, table }: { name: string; table: string }): string {
  const place = new RegExp(`(?<=<!-- ${name} -->\n)[^]*?(?=<!-- /${name} -->)`);
  if (!place.test(page)) throw new Error(`performance.md has no place for "${name}"`);
  return page.replace(place, () => `\n${table}\n\n`);
}

function chartsOf({ variants: { near, far }, sizes }: Results): Record<string, string> {
  const names = variantsOf(near);
  const latencies = ({ inTurn }: Speeds) =>
    names.map((variant) => ratioOf(inTurn[variant], inTurn.unprotected));
  const [smallest] = sizes;
  return {
    latency: barsOf("latency, of that of the unprotected endpoint", {
      names,
      groups: { "database beside it": latencies(near), "20 ms a round trip": latencies(far) },
    }),
    sizes: linesOf("latency, of that with the fewest rows", {
      rows: sizes.map(({ rows }) => rows),
      lines: {
        fresh: sizes.map(({ fresh }) => ratioOf(fresh, smallest!.fresh)),
        replay: sizes.map(({ replay }) => ratioOf(replay, smallest!.replay)),
      },
    }),
  };
}

const variantsOf = ({ inTurn }: Speeds) => Object.keys(inTurn) as Variant[];

function spreadOf({ median, low, high }: Ratio): string {
  return `${median.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;
}

function tableOf(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const lines = [head, head.map((_, column) => (column === 0 ? "---" : "---:")), ...rows];
  return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}
