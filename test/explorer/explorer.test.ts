import { readFileSync } from "node:fs";
import { join } from "node:path";

import { beforeEach, describe, expect, test, vi } from "vitest";

import { openDatabase } from "./database.ts";
import { explore, replay } from "./explore.ts";
import { hunt } from "./hunt.ts";
import { run } from "./jobs.ts";
import { mutantOf, MUTANTS } from "./mutants.ts";
import { NAIVE_ENDPOINTS, scenarioOf, scenarios } from "./scenarios.ts";

// The short form: every schedule without a fault, some with two, and every mutant until it is caught. `npm run explore`
// runs every schedule with one fault.
const names = scenarios({ clients: 2, faults: 0 }).map(({ name }) => name);
const SEED = 20_260;
const SAMPLES = 20;

// The product logs every request.
beforeEach(() => {
  vi.spyOn(console, "info").mockImplementation(() => undefined);
  vi.spyOn(console, "error").mockImplementation(() => undefined);
});

describe.each(names)("%s", (scenario) => {
  test("no schedule without a fault breaks a guarantee", async () => {
    const bounds = { clients: 2, faults: 0 };
    const found = await run({ scenario, mutant: null, bounds, sampling: null });
    expect(found.violations).toEqual([]);
    expect(found.isExhaustive).toBe(true);
  });

  test("no schedule of three clients and two faults that was drawn breaks a guarantee", async () => {
    const bounds = { clients: 3, faults: 2 };
    const sampling = { schedules: SAMPLES, seed: SEED };
    const found = await run({ scenario, mutant: null, bounds, sampling });
    expect(found.violations).toEqual([]);
    expect(found.schedules).toBe(SAMPLES);
  });
});

test("claims are taken over in the schedules that are explored", async () => {
  const bounds = { clients: 2, faults: 0 };
  const orders = await run({ scenario: "orders", mutant: null, bounds, sampling: null });
  expect(orders.withTakeover).toBeGreaterThan(0);
});

const caught = MUTANTS.filter(({ equivalent }) => equivalent === undefined);

test.each(caught)("$name is caught", async ({ name, scenario }) => {
  const { broken } = await hunt({ scenario, mutant: name }, run);
  expect(broken).not.toEqual([]);
});

test.each(NAIVE_ENDPOINTS)("POST /lab/orders/%s buys twice", async (scenario) => {
  const { broken } = await hunt({ scenario, mutant: null }, run);
  expect(broken).toEqual(["1. one key had two effects"]);
});

test.each(["orders past the window", "one key, two accounts", "payments past the window"])(
  "what is not run of %s would end in no other way",
  async (name) => {
    const scenario = scenarioOf(name, { clients: 2, faults: 0 });
    const database = openDatabase(scenario.seed);
    const reduced = await explore(database, { scenario, mutant: null });
    const all = await explore(database, { scenario, mutant: null, isUnreduced: true });
    expect(all.schedules).toBeGreaterThan(reduced.schedules);
    expect(all.ends).toEqual(reduced.ends);
  },
);

test("docs/protocol.md names every scenario and every mutant", () => {
  const page = readFileSync(join(import.meta.dirname, "../../docs/protocol.md"), "utf8");
  const naive = NAIVE_ENDPOINTS.map((name) => `POST /lab/orders/${name}`);
  const expected = [...names, ...MUTANTS.map(({ name }) => name), ...naive];
  const rows = page.split("\n").filter((line) => line.startsWith("| "));
  const firstCells = rows.map((row) => row.split("|")[1]!.replaceAll("`", "").trim());
  expect(firstCells).toEqual(expect.arrayContaining(expected));
});

test("a schedule that was found runs again in the same way", async () => {
  const bounds = { clients: 2, faults: 0 };
  const job = { scenario: "orders", mutant: "no fence", bounds };
  const { violations } = await run({ ...job, sampling: null });
  const { path, trace, broken } = violations[0]!;

  const scenario = scenarioOf(job.scenario, bounds);
  const subject = { scenario, mutant: mutantOf(job.mutant) };
  const again = await replay(openDatabase(scenario.seed), subject, path);
  expect(again).toEqual({ trace, broken });
});
