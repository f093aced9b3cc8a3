import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, test, vi } from "vitest";

import { CRONS } from "../../src/env.ts";
import worker from "../../src/index.ts";
import {
  CRON_BATCH_SIZE,
  CRON_MAX_BATCHES,
  FREE_PLAN_STATEMENTS,
} from "../../src/idempotency/sweep.ts";
import { callLost, faultyD1, passes } from "./faulty-d1.ts";
import { openOffice } from "./operator.ts";
import { emptyLedger, plant } from "./planted.ts";
import { ledgerRow, ledgerSize, openShop, ordersOf, shelve, sql, TestClock } from "./shop.ts";

// Goal: eviction that falls behind, or stops, is seen before the table has grown too large; and one that has fallen far
// behind catches up without anybody noticing.

const HOUR_MS = 3_600_000;
const RETENTION_MS = 86_400_000;
const order = (product: string) => ({ items: [{ product_id: product, quantity: 1 }] });
const cron = (DB = env.DB) =>
  worker.scheduled(createScheduledController({ cron: CRONS.sweep }), { ...env, DB });

beforeEach(emptyLedger);

/** Collects the log lines at error level from here on. */
function collectErrors(): unknown[] {
  const lines: unknown[] = [];
  vi.spyOn(console, "error").mockImplementation((line) => lines.push(JSON.parse(String(line))));
  return lines;
}

test("100,000 expired keys are caught up with in bounded batches, while requests go on and live keys stay", async () => {
  const clock = new TestClock();
  const now = clock.now();
  const [expired, live] = [now - 2 * HOUR_MS, now + RETENTION_MS - 60_000];
  const d1 = faultyD1();
  const shop = await openShop({ bindings: { DB: d1.DB, SERVER_TIMING: "on" }, ports: clock });
  const { account } = shop;
  const office = await openOffice({ account, clock });
  const product = await shelve(account.id);
  await plant("old", 99_000, { expiresAt: expired, status: "completed" });
  await plant("old", 600, { expiresAt: expired });
  await plant("old", 400, { expiresAt: expired, status: "pending" });
  await plant("live", 5, { expiresAt: live, status: "completed" });
  await plant("live", 3, { expiresAt: live, status: "pending", updatedAt: now });
  await plant("orphaned", 2, { expiresAt: live, status: "pending" });
  const before = await office.ledger();

  const ofCron = faultyD1();
  const cronTrips: ReturnType<typeof ofCron.take>[] = [];
  const answers: Awaited<ReturnType<typeof shop.post>>[] = [];
  for (let run = 1; run <= 20; run++) {
    const running = cron(ofCron.DB);
    answers.push(await shop.post("/orders", order(product), `k${run}`));
    answers.push(await shop.post("/orders", order(product), `k${run}`));
    await running;
    cronTrips.push(ofCron.take());
    if (await sql`SELECT is_caught_up FROM sweep_runs ORDER BY id DESC`.first("is_caught_up"))
      break;
  }
  const after = await office.ledger();
  const metrics = await office.metrics();

  const runs = [after.eviction.last_run!, ...after.eviction.earlier_runs];
  const keys = answers.length / 2;
  expect(before).toMatchObject({
    rows: { completed: 99_005, released: 600, pending: 405, orphaned: 402, expired: 100_000 },
    eviction: { evicted: 0, lag_ms: 2 * HOUR_MS, failing: true, faults: ["lag"] },
  });
  expect(after).toMatchObject({
    rows: { completed: 5 + keys, released: 0, pending: 5, orphaned: 2, expired: 0 },
    oldest_live: new Date(now - 60_000).toISOString(),
    eviction: { evicted: 100_000, lag_ms: 0, failing: false, faults: [] },
  });
  // It takes eight runs to delete so many rows, and none of the batches is larger than it may be.
  expect(runs.length).toBeGreaterThanOrEqual(8);
  expect(runs.map((run) => run.caught_up)).toEqual(runs.map((_, i) => i === 0));
  const deleted = cronTrips.flat().map(({ rowsWritten }) => rowsWritten);
  expect(Math.max(...deleted)).toBe(CRON_BATCH_SIZE + 2);
  expect(Math.max(...runs.map(({ batches }) => batches))).toBe(CRON_MAX_BATCHES);
  // One batch more would be more than the free plan allows.
  const perRun = cronTrips.map((run) => run.reduce((sum, { statements }) => sum + statements, 0));
  expect(Math.max(...perRun)).toBeLessThanOrEqual(FREE_PLAN_STATEMENTS);
  expect(Math.max(...perRun) + 3).toBeGreaterThan(FREE_PLAN_STATEMENTS);
  expect(await ledgerSize("old")).toBe(0);
  expect([await ledgerSize("live"), await ledgerSize("orphaned")]).toEqual([8, 2]);
  expect(metrics).toMatchObject({
    "idempotency_keys completed": 5 + keys,
    "idempotency_keys pending": 5,
    idempotency_keys_expired: 0,
    idempotency_evicted_total: 100_000,
    idempotency_eviction_lag_seconds: 0,
    idempotency_eviction_failing: 0,
  });
  // The requests in between cost what they always cost, and what they bought was bought once.
  const trips = answers.map(({ headers }) => headers.get("server-timing")!.split('"')[1]);
  expect(trips).toEqual(answers.map((_, i) => `round trips ${i % 2 === 0 ? 2 : 1}`));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
  expect(await ordersOf(account.id)).toHaveLength(keys);
});

test("a cron that has stopped is shown as failing, though it logs nothing, until a run ends again", async () => {
  const clock = new TestClock();
  const office = await openOffice({ clock });
  await cron();
  const afterRun = await office.ledger();
  clock.advance(HOUR_MS - 10_000);
  const inTime = await office.ledger();
  clock.advance(20_000);
  const stopped = await office.ledger();
  const stoppedMetrics = await office.metrics();

  await sql`UPDATE sweep_runs SET ended_at = ${clock.now()}`.run();
  const runsAgain = await office.ledger();

  expect(afterRun.eviction).toMatchObject({ failing: false, faults: [] });
  expect(inTime.eviction).toMatchObject({ failing: false, faults: [] });
  expect(stopped.eviction).toMatchObject({ failing: true, faults: ["stopped"], lag_ms: 0 });
  expect(stoppedMetrics["idempotency_eviction_failing"]).toBe(1);
  expect(runsAgain.eviction).toMatchObject({ failing: false, faults: [] });
});

test("a lag over the alert is logged as an error by the run that could not help it, and shown", async () => {
  const clock = new TestClock();
  const office = await openOffice({ clock });
  const expiresAt = clock.now() - HOUR_MS - 1_000;
  // Its owner has just renewed its lease, and would be the one row that the sweep leaves.
  await plant("held", 1, { expiresAt, status: "pending", updatedAt: clock.now() });
  const errors = collectErrors();

  await cron();

  const [line] = errors;
  expect(errors).toHaveLength(1);
  expect(line).toMatchObject({ level: "error", event: "cron_sweep", isLagging: true, evicted: 0 });
  expect((line as { lagMs: number }).lagMs).toBeGreaterThan(HOUR_MS);
  expect((await office.ledger()).eviction).toMatchObject({ failing: true, faults: ["lag"] });
  expect(await office.metrics()).toMatchObject({
    idempotency_eviction_failing: 1,
    idempotency_eviction_lag_seconds: 3_601,
  });
});

test("a lag below the alert is no error", async () => {
  const clock = new TestClock();
  const expiresAt = clock.now() - HOUR_MS + 60_000;
  await plant("held", 1, { expiresAt, status: "pending", updatedAt: clock.now() });
  const errors = collectErrors();

  await cron();

  expect(errors).toEqual([]);
  expect(await ledgerRow("held", "pending1")).not.toBeNull();
});

test("a run that breaks off is logged as an error, and does not pass for one that ended", async () => {
  const clock = new TestClock();
  const office = await openOffice({ clock });
  await plant("live", 1, { expiresAt: clock.now() + RETENTION_MS });
  const d1 = faultyD1();
  const errors = collectErrors();

  // The beginning of the run, and then its first batch.
  d1.next(passes, callLost);
  await cron(d1.DB);
  clock.advance(HOUR_MS + 60_000);

  expect(errors).toEqual([expect.objectContaining({ event: "cron_sweep" })]);
  expect((await office.ledger()).eviction).toMatchObject({
    faults: ["stopped"],
    last_run: { ended_at: null },
  });
});
