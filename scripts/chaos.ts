// `npm run chaos`: kills a fresh local service under load, again and again, and counts what is left. Exit code 0 only if
// nothing was lost, nothing happened twice, and the history of every key can be explained.
import { randomInt } from "node:crypto";
import { join } from "node:path";

import { claimsOf, describeReport, describeRound } from "./chaos/report.ts";
import { runChaos } from "./chaos/run.ts";
import { holds } from "./demo-table.ts";
import { argumentsOf, main, refuse } from "./main.ts";

const DEFAULT_ROUNDS = "20";
const MAX_SEED = 2 ** 31;

const { rounds, seed } = wanted();

await main({ name: "chaos" }, async (directory) => {
  console.log(`${rounds} rounds, seed ${seed}: npm run chaos -- --rounds ${rounds} --seed ${seed}`);
  const report = await runChaos({
    rounds,
    seed,
    place: { persistTo: join(directory, "state"), tmpDir: directory },
    tell: (round) => console.log(describeRound(round)),
  });
  console.log(`\n${describeReport(report)}`);
  return claimsOf(report).every(holds) ? 0 : 1;
});

function wanted() {
  const options = { rounds: { type: "string" }, seed: { type: "string" } } as const;
  const { values } = argumentsOf({ options });
  const given = { rounds: DEFAULT_ROUNDS, seed: String(randomInt(MAX_SEED)), ...values };
  for (const [name, value] of Object.entries(given)) {
    if (!/^\d{1,10}$/.test(value)) refuse(`--${name} ${value} is not a whole number.`);
  }
  return { rounds: Number(given.rounds), seed: Number(given.seed) };
}
