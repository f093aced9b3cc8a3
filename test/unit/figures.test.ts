import { expect, test } from "vitest";

import { isCountDue } from "../../src/idempotency/census.ts";
import { evictionFaults } from "../../src/idempotency/figures.ts";

const NOW = 1_800_000_000_000;
const ALERT_MS = 3_600_000;

/** A run that ended `ago` ms before now. */
function ended(ago: number) {
  const endedAt = NOW - ago;
  const startedAt = endedAt - 1_000;
  return { id: 1, startedAt, endedAt, evicted: 0, batches: 1, isCaughtUp: true, lagMs: 0 };
}

const faultsOf = (seen: Partial<Parameters<typeof evictionFaults>[0]>) =>
  evictionFaults(
    {
      lagMs: 0,
      lastEndedRun: ended(300_000),
      firstRunAt: NOW - 86_000_000,
      oldestLiveAt: NOW - 86_000_000,
      ...seen,
    },
    { now: NOW, evictionLagAlertMs: ALERT_MS },
  );

test("a lag is a fault once it is over the alert", () => {
  expect(faultsOf({ lagMs: 0 })).toEqual([]);
  expect(faultsOf({ lagMs: ALERT_MS })).toEqual([]);
  expect(faultsOf({ lagMs: ALERT_MS + 1 })).toEqual(["lag"]);
});

test("a cron is stopped when its last run that ended did so longer ago than the alert", () => {
  expect(faultsOf({ lastEndedRun: ended(ALERT_MS) })).toEqual([]);
  expect(faultsOf({ lastEndedRun: ended(ALERT_MS + 1) })).toEqual(["stopped"]);
  expect(faultsOf({ lastEndedRun: ended(ALERT_MS + 1), lagMs: ALERT_MS + 1 })).toEqual([
    "lag",
    "stopped",
  ]);
});

test("before the first run that ended, the time counts from the first sign that there was work", () => {
  const none = { lastEndedRun: null, firstRunAt: null, oldestLiveAt: null };
  expect(faultsOf(none)).toEqual([]);
  expect(faultsOf({ ...none, oldestLiveAt: NOW - ALERT_MS })).toEqual([]);
  expect(faultsOf({ ...none, oldestLiveAt: NOW - ALERT_MS - 1 })).toEqual(["stopped"]);
  expect(faultsOf({ ...none, firstRunAt: NOW - ALERT_MS })).toEqual([]);
  expect(faultsOf({ ...none, firstRunAt: NOW - ALERT_MS - 1 })).toEqual(["stopped"]);
});

test("a key from a clock that is ahead stops nothing", () => {
  const none = { lastEndedRun: null, firstRunAt: null };
  expect(faultsOf({ ...none, oldestLiveAt: NOW + ALERT_MS })).toEqual([]);
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
