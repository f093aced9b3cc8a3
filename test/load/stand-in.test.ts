import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { expect, test, type TestContext } from "vitest";

import { temporaryDirectory } from "../process/run-script.ts";
import { type Ended, runTest } from "./k6/run.ts";

// Goal: a script that passes with the stand-in does so with k6, as far as that can be known without k6. What k6 does not
// have, or would refuse, or would only warn of, ends the run.

const SOUND = {
  imports: 'import { check } from "k6"; import { Counter, Gauge, Trend } from "k6/metrics";',
  init: 'const made = new Counter("made"); const took = new Trend("took", true);',
  scenarios: '{ one: { executor: "shared-iterations", vus: 2, iterations: 4 } }',
  thresholds: '{ made: ["count==4"], "made{kind:a}": ["count==4"], checks: ["rate==1"] }',
  more: "",
  setup: "return { a: 1, b: 2 };",
  iteration:
    'made.add(1, { kind: "a" }); took.add(5); check(data, { given: ({ a, b }) => a + b === 3 });',
  teardown: "",
};

type Done = Extract<Ended, { kind: "done" }>;

async function runScript(context: TestContext, changes: Partial<typeof SOUND>) {
  const script = { ...SOUND, ...changes };
  const source = `
    ${script.imports}
    ${script.init}
    export const options = { scenarios: ${script.scenarios}, thresholds: ${script.thresholds} ${script.more} };
    export async function setup() { ${script.setup} }
    export default async function (data: any) { ${script.iteration} }
    export async function teardown(data: any) { ${script.teardown} }
    export const handleSummary = (data: any) => ({ stdout: JSON.stringify(data) });
  `;
  const path = join(await temporaryDirectory(context), "script.ts");
  await writeFile(path, source);
  const stopped = new AbortController().signal;
  return runTest(path, { env: { GREETING: "hello" }, stopped });
}

test("a sound script passes, and its summary has the shape of k6's", async (context) => {
  const ended = await runScript(context, {});

  expect(ended).toMatchObject({ kind: "done", failed: [] });
  const { stdout } = (ended as Done).summary;
  const { metrics, setup_data } = JSON.parse(stdout as string) as Record<string, object>;
  expect(setup_data).toEqual({ a: 1, b: 2 });
  expect(metrics).toMatchObject({
    "made{kind:a}": {
      type: "counter",
      values: { count: 4 },
      thresholds: { "count==4": { ok: true } },
    },
    took: { type: "trend", contains: "time", values: { med: 5, "p(95)": 5 } },
    iterations: { values: { count: 4 } },
  });
});

test("VUs share nothing but what setup() returns, whose fields come in another order", async (context) => {
  const ended = await runScript(context, {
    init: `${SOUND.init} let turns = 0;`,
    iteration: `made.add(1, { kind: "a" }); turns++;
      check(data, {
        "own turns": () => turns <= 3 && turns === __ITER + 1,
        "another order": () => Object.keys(data).join() === "b,a",
        "the environment": () => __ENV["GREETING"] === "hello",
      });
      await Promise.resolve();`,
  });

  expect(ended).toMatchObject({ kind: "done", failed: [] });
});

type Case = [what: string, changes: Partial<typeof SOUND>, said: string];

test.for<Case>([
  ["a threshold", { thresholds: '{ made: ["count<4"] }' }, "made count<4, but 4"],
  [
    "a sub-metric's threshold",
    { thresholds: '{ "made{kind:b}": ["count>0"] }' },
    "made{kind:b} count>0, but 0",
  ],
  ["a check", { iteration: "check(data, { no: () => false });" }, "checks rate==1, but 0"],
  ["a check that nobody made", { iteration: "" }, "checks rate==1, but NaN"],
])("%s that does not hold fails the run", async ([, changes, said], context) => {
  const ended = await runScript(context, changes);

  expect(ended).toMatchObject({ kind: "done", failed: expect.arrayContaining([said]) as string[] });
});

test.for<Case>([
  ["an unknown option", { more: ", discardBodies: true" }, "unknown options: discardBodies"],
  ["an unknown executor", { scenarios: '{ one: { executor: "ramping-vus" } }' }, "ramping-vus"],
  [
    "an unknown option of a scenario",
    { scenarios: '{ one: { executor: "constant-vus", vus: 1, duration: "1s", loops: 2 } }' },
    "unknown options: loops",
  ],
  [
    "a duration that is none",
    { scenarios: '{ one: { executor: "constant-vus", vus: 1, duration: "1 s" } }' },
    '"1 s" is not a duration',
  ],
  [
    "fewer iterations than VUs",
    { scenarios: '{ one: { executor: "shared-iterations", vus: 4, iterations: 2 } }' },
    "fewer iterations than VUs",
  ],
  ["a threshold on no metric", { thresholds: '{ mad: ["count>0"] }' }, 'no metric "mad"'],
  ["a threshold that is none", { thresholds: '{ made: ["count=0"] }' }, "not a threshold"],
  ["a counter's median", { thresholds: '{ made: ["med>0"] }' }, "a counter has no med"],
  ["a percentile of too many", { thresholds: '{ took: ["p(950)<9"] }' }, "a trend has no p(950)"],
  ["a metric of two types", { init: `${SOUND.init} new Gauge("made");` }, "another type"],
  ["a metric without a proper name", { init: 'new Counter("a-b");' }, "invalid metric name"],
  [
    "a function that is not there",
    { scenarios: '{ one: { executor: "constant-vus", vus: 1, duration: "1s", exec: "two" } }' },
    "exports no function two",
  ],
  ["a module of Node", { imports: 'import "node:fs";' }, 'no module "node:fs"'],
  ["a module from the network", { imports: 'import "https://jslib.k6.io/x.js";' }, "no module"],
  ["a name that a module has not", { imports: 'import { checks } from "k6";' }, "checks"],
  ["a loop that awaits", { iteration: "for await (const one of []) one;" }, 'read "for await"'],
  ["an import without its extension", { imports: 'import "./other";' }, "has to end in .ts"],
])("%s ends a run before it has begun", async ([, changes, said], context) => {
  const ended = await runScript(context, changes);

  expect(ended).toMatchObject({ kind: "config", error: expect.anything() as unknown });
  expect(String((ended as Extract<Ended, { kind: "config" }>).error)).toContain(said);
});

const HTTP = `${SOUND.imports} import http from "k6/http";`;

test.for<Case>([
  ...["URL", "URLSearchParams", "fetch", "structuredClone", "performance", "process", "Buffer"].map(
    (name): Case => [name, { iteration: `${name};` }, `${name} is not defined`],
  ),
  ...["Intl", "WeakRef", "setTimeout", "AbortController", "TextEncoder"].map((name): Case => [
    name,
    { iteration: `${name};` },
    `${name} is not defined`,
  ]),
  ...[
    "Object.groupBy([], String)",
    "Array.fromAsync([])",
    "Promise.withResolvers()",
    "[].values().map(String)",
    '"".isWellFormed()',
  ].map((call): Case => [call, { iteration: `${call};` }, "is not a function"]),
  ["a dynamic import", { iteration: 'await import("k6");' }, "dynamic import"],
  ["a metric that is made late", { iteration: 'new Counter("late");' }, "defined too late"],
  ["a sample that is none", { iteration: "made.add(NaN);" }, "is not a sample"],
  ["a tag that is no string", { iteration: "made.add(1, { kind: 1 });" }, "is not a string"],
  ["a check with colons", { iteration: 'check(1, { "a::b": () => true });' }, 'no "::"'],
  ["a check of a promise", { iteration: "check(1, { late: async () => true });" }, "true or false"],
  ["an exception in setup()", { setup: "throw new Error('no shop');" }, "no shop"],
  ["an exception in teardown()", { teardown: "throw new Error('no books');" }, "no books"],
  [
    "the scenario in setup()",
    {
      imports: `${SOUND.imports} import { scenario } from "k6/execution";`,
      setup: "scenario.name;",
    },
    "there is no scenario here",
  ],
  [
    "an unknown parameter of a request",
    {
      imports: HTTP,
      iteration:
        'await http.asyncRequest("GET", "http://127.0.0.1:1/", null, { signal: 1, responseType: "text", redirects: 0 });',
    },
    "unknown params: signal",
  ],
  [
    "an unknown property of a response",
    {
      imports: HTTP,
      iteration:
        'const answer = await http.asyncRequest("GET", "http://127.0.0.1:1/", null, { responseType: "text", redirects: 0 }); answer.ok;',
    },
    "no ok in a response",
  ],
])("%s is thrown", async ([, changes, said], context) => {
  const ended = await runScript(context, changes);

  expect(ended.kind).toBe("done");
  expect(String((ended as Done).thrown[0]?.error)).toContain(said);
});

test("what an iteration throws stops nobody else, and counts as an iteration", async (context) => {
  const ended = await runScript(context, {
    thresholds: '{ iterations: ["count==4"], made: ["count==3"] }',
    iteration: `if (scenario.iterationInTest === 0) throw new Error("no luck"); made.add(1);`,
    imports: `${SOUND.imports} import { scenario } from "k6/execution";`,
    teardown: "made.add(0);",
  });

  expect(ended).toMatchObject({ kind: "done", failed: [], thrown: [{ part: "iteration" }] });
});

test("after what setup() throws there is nothing but the summary", async (context) => {
  const ended = await runScript(context, {
    setup: "throw new Error('no shop');",
    teardown: "throw new Error('no books');",
  });

  expect(ended).toMatchObject({ kind: "done", thrown: [{ part: "setup" }] });
  const { stdout } = (ended as Done).summary;
  const summary = JSON.parse(stdout as string) as object;
  expect(summary).toHaveProperty("metrics.made.values.count", 0);
  expect(summary).not.toHaveProperty("metrics.iterations");
});

test("an answer that did not come has no headers", async (context) => {
  const ended = await runScript(context, {
    imports: HTTP,
    thresholds: '{ checks: ["rate==1"] }',
    iteration: `
      const { headers, body, status } = await http.asyncRequest("GET", "http://127.0.0.1:1/", null, { responseType: "text", redirects: 0 });
      check(0, { nothing: () => headers === null && body === null && status === 0 });
    `,
  });

  expect(ended).toMatchObject({ kind: "done", failed: [], thrown: [] });
});
