// `npm run bench`: what exactly-once costs, in one run on one machine, as ratios. Ten minutes on a machine that does nothing
// else; what it prints is docs/performance.md's.
//
//   npm run bench -- --publish   puts the tables and charts into docs/performance.md
//   npm run bench -- --quick     a minute, far too short for the ratios: to see that it works
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import {
  countCosts,
  type Effort,
  timeSizes,
  timeSweeps,
  timeVariants,
} from "./bench/experiments.ts";
import { publish, type Results, tablesOf } from "./bench/report.ts";
import { startBench } from "./bench/service.ts";
import { exitCodeOf, stopAll, untilInterrupted } from "./child-process.ts";
import { prepareDatabase } from "./local-service.ts";

const FULL = { rounds: 25, requests: 20, sweeps: 20, sizes: [1_000, 100_000, 1_000_000] };
const QUICK = { rounds: 1, requests: 5, sweeps: 1, sizes: [100, 200, 3_000] };

const interrupted = untilInterrupted().then(exitCodeOf);
const home = await mkdtemp(join(tmpdir(), "idempotent-orders-bench-"));

const code = await Promise.race([run(), interrupted]).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  return 1;
});
await stopAll();
await rm(home, { recursive: true, force: true, maxRetries: 5 });
process.exit(code);

async function run(): Promise<number> {
  const options = { publish: { type: "boolean" }, quick: { type: "boolean" } } as const;
  const { values } = parseArgs({ options });
  if (values.publish === true && values.quick === true) {
    throw new Error("--quick is far too short for what is published: leave one of the two out.");
  }
  const results = await measure(values.quick === true ? QUICK : FULL);
  for (const [name, table] of Object.entries(tablesOf(results))) console.log(`\n${name}\n${table}`);
  if (values.publish === true) await publish(results);
  return 0;
}

async function measure({ sizes, ...effort }: Effort & { sizes: number[] }): Promise<Results> {
  const prepared = join(home, "prepared");
  await prepareDatabase({ persistTo: prepared, tmpDir: home });
  const benches = [];
  for (const rows of sizes) {
    console.log(`Starting a service with ${rows.toLocaleString("en")} keys in its ledger ...`);
    benches.push(await startBench(rows, { home, prepared }));
  }
  const [idle] = benches;
  const full = benches.at(-1);
  if (idle === undefined || full === undefined) throw new Error("bug: no sizes");

  console.log("Counting what each request costs ...");
  const costs = await countCosts(idle);
  // First of all, while each ledger has as many rows as it is named for.
  console.log("Timing orders and replays by the rows in the ledger ...");
  const sized = await timeSizes(benches, effort);
  console.log("Timing the ways to place an order ...");
  const variants = await timeVariants(idle, effort);
  console.log("Timing the sweep ...");
  const sweeps = await timeSweeps({ idle, full }, effort);
  return { costs, variants, sizes: sized, sweeps };
}
