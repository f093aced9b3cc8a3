import { expect, test } from "vitest";

import { isCountDue } from "../../src/idempotency/census.ts";
import { evictionFaults } from "../../src/idempotency/figures.ts";

const NOW = 1_800_000_000_000;
const ALERT_MS = 3_600_000;

/** A run that began `ago` ms before now; `ended` after a second, unless it broke off. */
function run(ago: number, { ended = true } = {}) {
  const startedAt = NOW - ago;
  const endedAt = ended ? startedAt + 1_000 : null;
  return { id: 1, startedAt, endedAt, evicted: 0, batches: 1, isCaughtUp: true, lagMs: 0 };
}

const faultsOf = (seen: Partial<Parameters<typeof evictionFaults>[0]>) =>
  evictionFaults(
    { lagMs: 0, runs: [run(300_000)], oldestLiveAt: NOW - 86_000_000, ...seen },
    { now: NOW, evictionLagAlertMs: ALERT_MS },
  );

test("a lag is a fault once it is over the alert", () => {
  expect(faultsOf({ lagMs: 0 })).toEqual([]);
  expect(faultsOf({ lagMs: ALERT_MS })).toEqual([]);
  expect(faultsOf({ lagMs: ALERT_MS + 1 })).toEqual(["lag"]);
});

test("a cron is stopped when its last run that ended did so longer ago than the alert", () => {
  expect(faultsOf({ runs: [run(ALERT_MS + 1_000)] })).toEqual([]);
  expect(faultsOf({ runs: [run(ALERT_MS + 1_001)] })).toEqual(["stopped"]);
  expect(faultsOf({ runs: [run(ALERT_MS + 1_001)], lagMs: ALERT_MS + 1 })).toEqual([
    "lag",
    "stopped",
  ]);
});

test("runs that break off do not make up for one that ends", () => {
  const brokenOff = [run(1_000, { ended: false }), run(300_000, { ended: false })];
  expect(faultsOf({ runs: [...brokenOff, run(600_000)] })).toEqual([]);
  expect(faultsOf({ runs: [...brokenOff, run(2 * ALERT_MS)] })).toEqual(["stopped"]);
});

test("before the first run that ended, the time counts from the first sign that there was work", () => {
  expect(faultsOf({ runs: [], oldestLiveAt: null })).toEqual([]);
  expect(faultsOf({ runs: [], oldestLiveAt: NOW - ALERT_MS })).toEqual([]);
  expect(faultsOf({ runs: [], oldestLiveAt: NOW - ALERT_MS - 1 })).toEqual(["stopped"]);
  const first = run(ALERT_MS + 1, { ended: false });
  expect(faultsOf({ runs: [run(1, { ended: false }), first], oldestLiveAt: null })).toEqual([
    "stopped",
  ]);
});

test("a key from a clock that is ahead stops nothing", () => {
  expect(faultsOf({ runs: [], oldestLiveAt: NOW + ALERT_MS })).toEqual([]);
});

test("a count is kept the longer the larger it is, and an hour at most", () => {
  const counts = { pending: 1, completed: 8, released: 1, orphaned: 1, expired: 5 };
  const isDue = (rows: Partial<typeof counts>, age: number) =>
    isCountDue({ ...counts, ...rows, countedAt: NOW - age }, NOW);

  expect(isCountDue({ ...counts, countedAt: null }, NOW)).toBe(true);
  expect([isDue({}, 999), isDue({}, 1_000)]).toEqual([false, true]);
  const large = { completed: 1_000_000 };
  expect([isDue(large, 3_599_999), isDue(large, 3_600_000)]).toEqual([false, true]);
});
