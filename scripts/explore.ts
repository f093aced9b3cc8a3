import { openDatabase } from "../test/explorer/database.ts";
import { type Exploration, replay, type Violation } from "../test/explorer/explore.ts";
import { forEachInParallel, inThread, type Job } from "../test/explorer/jobs.ts";
import { mutantOf } from "../test/explorer/mutants.ts";
import { scenarioOf, scenarios } from "../test/explorer/scenarios.ts";
import { argumentsOf, refuse } from "./main.ts";
import { outdatedRows } from "./protocol-page.ts";

// Runs the product in every order in which things can happen, and exits with 1 when a guarantee breaks (docs/protocol.md).
//
//   npm run explore                                                2 clients, 1 fault, every schedule
//   npm run explore -- --scenario payments                         one scenario
//   npm run explore -- --clients 3 --faults 2 --schedules 20000    so many schedules of each, drawn at random
//   npm run explore -- --scenario orders --mutant "no fence"       one safeguard taken out
//   npm run explore -- --scenario orders --replay 1.1.0            what happens if it begins so, as a trace
const OPTIONS = {
  scenario: { type: "string" },
  mutant: { type: "string" },
  clients: { type: "string", default: "2" },
  faults: { type: "string", default: "1" },
  schedules: { type: "string" },
  seed: { type: "string" },
  replay: { type: "string" },
} as const;

const { values } = argumentsOf({ options: OPTIONS });
const bounds = { clients: whole("clients", 2, 3), faults: whole("faults", 0, 9) };
const { scenario, mutant = null } = values;

try {
  mutantOf(mutant);
  if (scenario !== undefined) scenarioOf(scenario, bounds);
} catch (error) {
  refuse((error as Error).message);
}
if (values.replay !== undefined) {
  if (scenario === undefined) refuse("--replay needs --scenario: which one?");
  await replayOne(scenario, values.replay.split(".").map(Number)).catch((error: Error) =>
    refuse(error.message),
  );
} else {
  await exploreAll(scenario === undefined ? scenarios(bounds).map(({ name }) => name) : [scenario]);
}

async function exploreAll(names: readonly string[]): Promise<void> {
  const sampling = values.schedules === undefined ? null : samplingOf();
  if (sampling !== null) console.log(`Drawn at random, by --seed ${sampling.seed}.`);
  const jobs = names.map((name): Job => ({ scenario: name, mutant, bounds, sampling }));
  const rows: Record<string, ReturnType<typeof rowOf>> = {};
  const broken: [Job, Violation][] = [];
  const startedAt = performance.now();
  await forEachInParallel(jobs, async (job) => {
    const found = await inThread(job);
    rows[job.scenario] = rowOf(found);
    console.log(`${job.scenario}: ${found.schedules} schedules`);
    broken.push(...found.violations.map((violation): [Job, Violation] => [job, violation]));
  });
  console.table(Object.fromEntries(names.map((name) => [name, rows[name]])));
  console.log(`${Math.round((performance.now() - startedAt) / 1000)} s`);
  for (const [job, violation] of broken) console.log(told(job, violation));
  // The page says what there is with two clients and one fault.
  const isOnPage =
    sampling === null && mutant === null && bounds.clients === 2 && bounds.faults === 1;
  const counted = Object.entries(rows).map(([name, row]) => [
    name,
    [row.schedules, row["distinct states"], row.violations],
  ]);
  const outdated = isOnPage ? outdatedRows(Object.fromEntries(counted)) : [];
  for (const line of outdated) console.log(line);
  process.exitCode = broken.length + outdated.length > 0 ? 1 : 0;
}

function rowOf({ schedules, states, withTakeover, isExhaustive, violations }: Exploration) {
  return {
    schedules,
    "distinct states": states,
    "ended after a takeover": withTakeover,
    complete: isExhaustive ? "yes" : "no",
    violations: violations.length,
  };
}

function told(job: Job, { broken, path, trace }: Violation): string {
  const options = [
    `npm run explore -- --scenario "${job.scenario}"`,
    ...(job.mutant === null ? [] : [`--mutant "${job.mutant}"`]),
    `--clients ${bounds.clients} --faults ${bounds.faults} --replay ${path.join(".")}`,
  ];
  return [`\n${job.scenario}`, ...broken, "", ...trace, "", `Again: ${options.join(" ")}`].join(
    "\n",
  );
}

async function replayOne(name: string, path: readonly number[]): Promise<void> {
  const subject = { scenario: scenarioOf(name, bounds), mutant: mutantOf(mutant) };
  const { log } = console;
  // The product logs each request.
  const { error } = console;
  Object.assign(console, { info: () => {}, error: () => {} });
  const replayed = await replay(openDatabase(subject.scenario.seed), subject, path).finally(() =>
    Object.assign(console, { error }),
  );
  const { trace, broken } = replayed;
  log([...trace, "", ...(broken.length > 0 ? broken : ["Every guarantee holds."])].join("\n"));
  // Attempts that crashed may have left timers.
  process.exit(broken.length > 0 ? 1 : 0);
}

function samplingOf() {
  const seed = values.seed === undefined ? Date.now() : whole("seed", 0, Number.MAX_SAFE_INTEGER);
  return { schedules: whole("schedules", 1, 1e9), seed };
}

function whole(name: "clients" | "faults" | "schedules" | "seed", least: number, most: number) {
  const number = Number(values[name]);
  if (Number.isInteger(number) && number >= least && number <= most) return number;
  return refuse(`--${name} must be a whole number from ${least} to ${most}`);
}
