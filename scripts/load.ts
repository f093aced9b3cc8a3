// `npm run load -- 02`: runs one of load-tests/ with k6, against a service that is started fresh with the settings it
// needs. Ends with k6's exit code: 0 only if every threshold held.
//
//   npm run load -- 02 --vus 100 --keys 500       how hard; each script says what it takes
//   npm run load -- 04 --rate 200 --duration 5m
//   npm run load -- 02 -- --out csv=samples.csv   what follows the second -- is for k6
//   BASE_URL=https://… npm run load -- 04         against a service that is running, which must have the right settings
//
// What k6 measured goes to load-results/, as JSON and as k6's own HTML report.
import { existsSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { type Child, startProgram } from "./child-process.ts";
import { type Lesson, LESSONS, type LoadOption } from "./load/lessons.ts";
import { KEYS_OF_SERVICE, startLessonService } from "./load/service.ts";
import { prepareDatabase, ROOT } from "./local-service.ts";
import { argumentsOf, main, refuse } from "./main.ts";

/**
 * How long k6 may take to end in order: it waits for claims that are still held (books.ts: 40 s), reads the books and
 * shows its summary.
 */
const K6_GRACE_MS = 90_000;
/** What shells answer for a command that does not exist. */
const NOT_FOUND = 127;
/** npm runs scripts in the project's root. */
const RESULTS = resolve("load-results");

const OPTIONS = {
  vus: { type: "string" },
  keys: { type: "string" },
  rate: { type: "string" },
  duration: { type: "string" },
} as const satisfies Record<LoadOption, { type: "string" }>;

const INSTALL = `k6 is not on the PATH. These scripts are for k6 v2, a program of its own:

  Debian, Ubuntu   https://grafana.com/docs/k6/latest/set-up/install-k6/#debianubuntu
  macOS            brew install k6
  Windows          winget install k6 --source winget
  others           https://grafana.com/docs/k6/latest/set-up/install-k6/`;

const wanted = wantedOf(process.argv.slice(2));
let k6: Child | undefined;

await main({ name: "load", onInterrupt: untilSummedUp }, run);

/** The service has to be there until k6 has asked it what came of all this. */
async function untilSummedUp(): Promise<void> {
  if (k6 === undefined || k6.hasEnded()) return;
  k6.process.kill("SIGINT");
  await Promise.race([k6.ended, sleep(K6_GRACE_MS, undefined, { ref: false })]);
}

async function run(directory: string): Promise<number> {
  if (!(await isInstalled())) {
    console.error(INSTALL);
    return NOT_FOUND;
  }
  const { lesson, load, flags } = wanted;
  const [summary, report] = await resultsOf(lesson);
  const variables = { ...(await serviceFor(lesson, directory)), ...load, SUMMARY: summary };
  const exitCode = await runK6(lesson, { variables, flags, report });
  // k6 draws nothing of a run that was over at once, and sums up nothing of one that did not begin.
  for (const path of [summary, report].filter((one) => existsSync(one))) {
    console.log(`All that was measured: ${path}`);
  }
  return exitCode;
}

/** The paths of the summary and the report. Nothing is left there of the run before, which could be taken for this one's. */
async function resultsOf({ script }: Lesson): Promise<[summary: string, report: string]> {
  await mkdir(RESULTS, { recursive: true });
  const results = join(RESULTS, script.replace(/\.ts$/, ""));
  const [summary, report] = [`${results}.json`, `${results}.html`];
  for (const path of [summary, report]) await rm(path, { force: true });
  return [summary, report];
}

/** Its address, and what the script has to know of it. */
async function serviceFor(lesson: Lesson, directory: string): Promise<Record<string, string>> {
  const { BASE_URL } = process.env;
  if (BASE_URL !== undefined && BASE_URL !== "") {
    const vars = Object.entries(lesson.vars).map((setting) => setting.join("="));
    if (vars.length > 0) console.log(`The service at ${BASE_URL} should have ${vars.join(", ")}.`);
    return { ...lesson.vars, BASE_URL };
  }
  console.log("Preparing a fresh database and starting the service on it ...");
  const place = { persistTo: join(directory, "state"), tmpDir: directory };
  await prepareDatabase(place);
  const { url } = await startLessonService(lesson, place);
  return { ...lesson.vars, ...lesson.env, ...KEYS_OF_SERVICE, BASE_URL: url };
}

function runK6(
  { script }: Lesson,
  given: { variables: Record<string, string>; flags: readonly string[]; report: string },
): Promise<number> {
  const variables = Object.entries(given.variables).flatMap((pair) => ["-e", pair.join("=")]);
  const own = ["--no-usage-report", ...variables];
  const env = {
    // What handleSummary() is given has the shape that it has had until now, whatever becomes the default.
    K6_NEW_MACHINE_READABLE_SUMMARY: "false",
    K6_WEB_DASHBOARD: "true",
    // This machine only, a port that is free. -1 should mean that there is none, but k6 then listens on every address.
    K6_WEB_DASHBOARD_HOST: "127.0.0.1",
    K6_WEB_DASHBOARD_PORT: "0",
    K6_WEB_DASHBOARD_EXPORT: given.report,
    // A run has to be a few times as long to be drawn, and lesson 1 takes a second. k6 makes it longer for long ones.
    K6_WEB_DASHBOARD_PERIOD: "250ms",
  };
  const args = ["run", ...own, ...given.flags, join(ROOT, "load-tests", script)];
  k6 = startProgram("k6", args, { cwd: ROOT, env, stdio: ["ignore", "inherit", "inherit"] });
  return k6.ended;
}

async function isInstalled(): Promise<boolean> {
  try {
    const version = startProgram("k6", ["version"], { cwd: ROOT, env: {}, stdio: "ignore" });
    return (await version.ended) === 0;
  } catch {
    return false;
  }
}

interface Wanted {
  lesson: Lesson;
  /** The options as the script reads them: `VUS`. */
  load: Record<string, string>;
  /** For k6. */
  flags: string[];
}

function wantedOf(argv: string[]): Wanted {
  const end = argv.indexOf("--");
  const [own, flags] = end === -1 ? [argv, []] : [argv.slice(0, end), argv.slice(end + 1)];
  const { values, positionals } = argumentsOf({
    args: own,
    options: OPTIONS,
    allowPositionals: true,
  });
  const [number = "", ...more] = positionals;
  const lesson = LESSONS[number.padStart(2, "0")];
  if (lesson === undefined || more.length > 0) {
    const known = Object.entries(LESSONS).map(([name, { script, options }]) => {
      const taken = options.map((option) => ` --${option}`).join("");
      return `  npm run load -- ${name}   ${script}${taken}`;
    });
    return refuse([`Which one?`, ...known].join("\n"));
  }
  const load: Record<string, string> = {};
  for (const [name, value] of Object.entries(values) as [LoadOption, string][]) {
    if (!lesson.options.includes(name)) refuse(`${lesson.script} takes no --${name}.`);
    const form = name === "duration" ? /^([1-9]\d*(ms|s|m|h))+$/ : /^[1-9]\d{0,6}$/;
    const example = name === "duration" ? "a duration, such as 30s or 5m" : "a number above 0";
    if (!form.test(value)) refuse(`--${name} ${value} is not ${example}.`);
    load[name.toUpperCase()] = value;
  }
  return { lesson, load, flags };
}
