// `npm run bench`: what exactly-once costs, in one run on one machine, as ratios. Ten minutes on a machine that does nothing
// else; what it prints is docs/performance.md's.
//
//   npm run bench -- --publish   puts the tables and charts into docs/performance.md
//   npm run bench -- --quick     a minute, far too short for the ratios: to see that it works
import { join } from "node:path";

import {
  countCosts,
  type Effort,
  timeSizes,
  timeSweeps,
  timeVariants,
} from "./bench/experiments.ts";
import { publish, type Results, tablesOf } from "./bench/report.ts";
import { startBench } from "./bench/service.ts";
import { prepareDatabase } from "./local-service.ts";
import { argumentsOf, main, refuse } from "./main.ts";

const FULL = { rounds: 25, requests: 20, sweeps: 20, sizes: [1_000, 100_000, 1_000_000] };
const QUICK = { rounds: 1, requests: 5, sweeps: 1, sizes: [100, 200, 3_000] };

const { values } = argumentsOf({
  options: {
    publish: { type: "boolean", default: false },
    quick: { type: "boolean", default: false },
  },
});
if (values.publish && values.quick) {
  refuse("--quick is far too short for what is published: leave one of the two out.");
}

await main({ name: "bench" }, async (home) => {
  const results = await measure(home, values.quick ? QUICK : FULL);
  for (const [name, table] of Object.entries(tablesOf(results))) console.log(`\n${name}\n${table}`);
  if (values.publish) await publish(results);
  return 0;
});

async function measure(
  home: string,
  { sizes, ...effort }: Effort & { sizes: number[] },
): Promise<Results> {
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
