// `npm run chaos`: kills a fresh local service under load, again and again, and counts what is left. Exit code 0 only if
// nothing was lost, nothing happened twice, and the history of every key can be explained.
import { randomInt } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { claimsOf, describeReport, describeRound } from "./chaos/report.ts";
import { runChaos } from "./chaos/run.ts";
import { exitCodeOf, stopAll, untilInterrupted } from "./child-process.ts";
import { holds } from "./demo-table.ts";

const DEFAULT_ROUNDS = "20";
const MAX_SEED = 2 ** 31;

const interrupted = untilInterrupted().then(exitCodeOf);
const directory = await mkdtemp(join(tmpdir(), "idempotent-orders-chaos-"));

const code = await Promise.race([run(), interrupted]).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  return 1;
});
await stopAll();
await rm(directory, { recursive: true, force: true, maxRetries: 5 });
process.exit(code);

async function run(): Promise<number> {
  const { rounds, seed } = parseArguments();
  console.log(`${rounds} rounds, seed ${seed}: npm run chaos -- --rounds ${rounds} --seed ${seed}`);
  const report = await runChaos({
    rounds,
    seed,
    place: { persistTo: join(directory, "state"), tmpDir: directory },
    tell: (round) => console.log(describeRound(round)),
  });
  console.log(`\n${describeReport(report)}`);
  return claimsOf(report).every(holds) ? 0 : 1;
}

/** @throws in plain words, when they are not numbers. */
function parseArguments() {
  const options = { rounds: { type: "string" }, seed: { type: "string" } } as const;
  const { values } = parseArgs({ options });
  const { rounds = DEFAULT_ROUNDS, seed = String(randomInt(MAX_SEED)) } = values;
  for (const [name, value] of Object.entries({ rounds, seed })) {
    if (!/^\d{1,10}$/.test(value)) throw new Error(`--${name} ${value} is not a whole number.`);
  }
  return { rounds: Number(rounds), seed: Number(seed) };
}
