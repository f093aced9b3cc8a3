import { setTimeout as sleep } from "node:timers/promises";

import { DEMO_SETTINGS, openShop } from "../demo-shop.ts";
import { prepareDatabase } from "../local-service.ts";
import { readBooks } from "./books.ts";
import { type Client, openClient } from "./client.ts";
import { startCrowd } from "./crowd.ts";
import { type Operation, openRecorder } from "./history.ts";
import { findViolations } from "./linearizability.ts";
import { type MortalService, startMortalService } from "./mortal-service.ts";
import { randomFrom } from "../random.ts";
import { settle } from "./settle.ts";
import { auditOf, compareCharges, compareOrders, countKeys } from "./verify.ts";

/** A lease that runs out between two kills, so that takeovers happen, and the provider's limit below it. */
const SETTINGS = { ...DEMO_SETTINGS, PENDING_TTL_MS: "1000", PROVIDER_TIMEOUT_MS: "400" };
/** Clients that live one story at a time, with up to nine requests under way in each (`tellStory`). */
const CROWD_SIZE = 8;
/** How long the service is left alone once it serves again, ms: sometimes too short for a lease to run out. */
const LIFE_MS = { least: 200, most: 1_500 };
/** In every seventh round wrangler dies as well, whose start takes longer. */
const KILL_ALL_EVERY = 7;
/** How often is looked whether it serves again, ms, and how many looks it gets. */
const POLL_MS = 25;
const MAX_POLLS = 2_400;

export interface Round {
  number: number;
  killed: "runtime" | "everything";
  /** Requests that waited for their answer when it was killed. */
  underWay: number;
  /** When it was killed, and when one who came later had an answer again: ms of the history's clock. */
  killedAt: number;
  servedAt: number;
}

export type Report = Awaited<ReturnType<typeof runChaos>>;

/**
 * Kills a service under load, round after round, and then counts what has become of all that was sent.
 *
 * @param tell Called after each round.
 */
export async function runChaos(options: {
  rounds: number;
  /** Decides what is sent, and when the service is killed. */
  seed: number;
  place: { persistTo: string; tmpDir: string };
  tell: (round: Round) => void;
}) {
  const { seed, place, tell } = options;
  await prepareDatabase(place);
  const service = await startMortalService({ ...place, vars: SETTINGS });
  const recorder = openRecorder(() => performance.now());
  const { operations } = recorder;
  const client = openClient(service.url, recorder);
  const stopCrowd = startCrowd(client, { seed, size: CROWD_SIZE });
  try {
    const random = randomFrom(seed);
    const rounds: Round[] = [];
    await untilServed(operations, { since: 0 });
    while (rounds.length < options.rounds) {
      await sleep(random.between(LIFE_MS.least, LIFE_MS.most));
      const number = rounds.length + 1;
      const killed = number % KILL_ALL_EVERY === 0 ? "everything" : "runtime";
      const pid = await service.findRuntime();
      const underWay = recorder.underWay();
      const killedAt = performance.now();
      await service.kill(killed, pid);
      await untilServed(operations, { since: killedAt });
      const round = { number, killed, underWay, killedAt, servedAt: performance.now() } as const;
      rounds.push(round);
      tell(round);
    }
    await stopCrowd();
    return { seed, rounds, ...(await takeStock(service, { client, operations, rounds })) };
  } finally {
    await stopCrowd();
    await service.stop();
  }
}

/** What became of it all, once nothing is killed any more. */
async function takeStock(
  service: MortalService,
  {
    client,
    operations,
    rounds,
  }: { client: Client; operations: readonly Operation[]; rounds: readonly Round[] },
) {
  const shop = openShop(service.url());
  const leftOver = await settle(client, { shop, url: service.url() });
  const books = await readBooks(shop);
  const undecided = operations.filter(({ outcome }) => outcome.kind === "undecided");
  const wasKilled = ({ invokedAt, answeredAt }: Operation) =>
    rounds.some(({ killedAt }) => invokedAt < killedAt && killedAt < answeredAt);
  return {
    requests: operations.length,
    undecided: undecided.length,
    cutOff: undecided.filter(wasKilled).length,
    leftOver,
    ...(await countKeys(client, shop)),
    ...compareOrders(client.decided, books),
    ...compareCharges(client.decided, books),
    violations: findViolations(operations),
    audit: await auditOf(shop),
  };
}

/** Resolves when a request that was sent after a moment has been answered by the service itself. */
async function untilServed(
  operations: readonly Operation[],
  { since }: { since: number },
): Promise<void> {
  const isServed = ({ invokedAt, outcome }: Operation) =>
    invokedAt > since && outcome.kind !== "undecided";
  for (let poll = 0; poll < MAX_POLLS; poll++) {
    if (operations.some(isServed)) return;
    await sleep(POLL_MS);
  }
  throw new Error("the service did not come back");
}
