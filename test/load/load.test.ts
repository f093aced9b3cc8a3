import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import { expect, test, type TestContext } from "vitest";
import { unstable_readConfig as readConfig } from "wrangler";

import { startChild } from "../../scripts/child-process.ts";
import { ROOT } from "../../scripts/local-service.ts";
import { expectNothingLeft, temporaryDirectory, untilPrinted } from "../process/run-script.ts";
import { putStandInOn } from "./k6-on-path.ts";

// Goal: `npm run load -- 02` is all that somebody who has k6 needs to know. A stand-in (k6/main.ts) takes its place here.

/** Of another service, as somebody who runs one may have them in the environment. */
const OTHER_KEYS = { ADMIN_TOKEN: "not-this-one", API_KEY: "nor-this-one" };

async function load(
  context: TestContext,
  args: readonly string[],
  { hasK6 = true, prepare = async (_tmpDir: string) => {} } = {},
) {
  const tmpDir = await temporaryDirectory(context);
  await prepare(tmpDir);
  const path = hasK6 ? await putStandInOn(tmpDir) : dirname(process.execPath);
  const env = { ...OTHER_KEYS, PATH: path, TMPDIR: tmpDir, BASE_URL: "" };
  const child = startChild(join(ROOT, "scripts/load.ts"), args, { cwd: tmpDir, env });
  context.onTestFinished(() => child.stop());
  return { child, tmpDir };
}

test.concurrent("a lesson runs on a service of its own, which is gone afterwards", async (context) => {
  const prepare = async (tmpDir: string) => {
    await mkdir(join(tmpDir, "load-results"));
    await writeFile(join(tmpDir, "load-results/02-duplicate-storm.html"), "of the run before");
  };
  const args = ["02", "--vus", "16", "--keys", "2", "--", "--quiet"];
  const run = await load(context, args, { prepare });
  const exitCode = await run.child.ended;

  expect(run.child.output()).toContain("6 distinct keys = 3 orders + 3 charges + 0 refunds");
  expect(exitCode).toBe(0);
  const results = join(run.tmpDir, "load-results");
  const summary = await readFile(join(results, "02-duplicate-storm.json"), "utf8");
  expect(JSON.parse(summary)).toHaveProperty("metrics.shop_orders.values.value", 3);
  // The stand-in draws no report.
  expect(await readdir(results)).toEqual(["02-duplicate-storm.json"]);
  expect(run.child.output()).not.toContain(".html");
  await expectNothingLeft(run, ["bin", "load-results"]);
});

test.concurrent("a Ctrl-C ends the load, not the count of what it did, and leaves nothing behind", async (context) => {
  const run = await load(context, ["02", "--vus", "5", "--keys", "5000"]);
  await untilPrinted(run, "A stand-in for k6 runs this script");

  run.child.process.kill("SIGINT");

  expect(await run.child.ended).toBe(130);
  expect(run.child.output()).toMatch(/^\d+ distinct keys = \d+ orders \+ \d+ charges/m);
  await expectNothingLeft(run, ["bin", "load-results"]);
});

test.concurrent("without k6 it says how to install it, and starts nothing", async (context) => {
  const run = await load(context, ["01"], { hasK6: false });

  expect(await run.child.ended).toBe(127);
  expect(run.child.output()).toMatch(/^k6 is not on the PATH/);
  expect(run.child.output()).toContain("https://grafana.com/docs/k6/latest/set-up/install-k6/");
  await expectNothingLeft(run);
});

test.concurrent.for<[args: string[], said: string]>([
  [[], "npm run load -- 06   06-soak.ts --vus --rate --duration"],
  [["07"], "Which one?"],
  [["01", "02"], "Which one?"],
  [["02", "--rate", "5"], "02-duplicate-storm.ts takes no --rate."],
  [["02", "--vus", "many"], "--vus many is not a number above 0."],
  [["06", "--duration", "10"], "--duration 10 is not a duration"],
  [["02", "--bursts", "5"], "--bursts"],
])("wrong arguments are refused in plain words: %s", async ([args, said], context) => {
  const run = await load(context, args);

  expect(await run.child.ended).toBe(2);
  expect(run.child.output()).toContain(said);
  expect(await readdir(run.tmpDir)).toEqual(["bin"]);
});

test("the load's settings are the deployed ones, but for the rate limit", () => {
  const configOf = (env?: string) =>
    readConfig({ config: join(ROOT, "wrangler.toml"), ...(env !== undefined && { env }) });
  const [deployed, loaded] = [configOf(), configOf("load")];

  expect(loaded.vars).toEqual(deployed.vars);
  expect(loaded.d1_databases).toEqual(deployed.d1_databases);
  expect(loaded.durable_objects).toEqual(deployed.durable_objects);
  const [limit, loadLimit] = [deployed, loaded].map(
    ({ ratelimits }) => ratelimits[0]!.simple.limit,
  );
  expect(loadLimit).toBeGreaterThan(1000 * limit!);
});
