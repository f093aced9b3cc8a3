import { beforeEach, expect, test } from "vitest";

import { callLost, faultyD1, gate, passes } from "./faulty-d1.ts";
import { openOffice } from "./operator.ts";
import { emptyLedger, plant } from "./planted.ts";
import { openShop, shelve, sql, TestClock } from "./shop.ts";

// Goal: Prometheus sees what the operator sees, and polling costs next to nothing however large the ledger is.

const RETENTION_MS = 86_400_000;
const MINUTE_MS = 60_000;

beforeEach(emptyLedger);

/** An operator's view whose every message to D1 is counted. */
async function openCounted() {
  const clock = new TestClock();
  const d1 = faultyD1();
  const office = await openOffice({ clock, DB: d1.DB });
  d1.take();
  const scrape = async () => {
    const metrics = await office.metrics();
    const trips = d1.take();
    const rowsRead = trips.reduce((sum, trip) => sum + trip.rowsRead, 0);
    return { metrics, rowsRead, trips: trips.length };
  };
  return { clock, d1, office, scrape };
}

test("the metrics are the operator's figures, in seconds", async () => {
  const clock = new TestClock();
  const d1 = faultyD1();
  const shop = await openShop({ bindings: { DB: d1.DB }, ports: clock });
  const other = await openShop({ account: shop.account, ports: clock });
  const office = await openOffice({ account: shop.account, clock });
  const order = { items: [{ product_id: await shelve(shop.account.id), quantity: 1 }] };
  const start = clock.now();
  await plant("old", 7, { expiresAt: start - 90_000 });
  const commit = gate();
  d1.next(passes, commit.fault);

  const late = shop.post("/orders", order, "k");
  await commit.reached;
  clock.advance(30_000);
  await other.post("/orders", order, "k");
  commit.open();
  await late;
  await plant("old", 2, { expiresAt: start - 60_000, status: "completed" });
  await sql`INSERT INTO sweep_runs (started_at, ended_at, evicted, batches, is_caught_up, lag_ms)
    VALUES (${start}, ${start + 500}, 4, 1, 1, 0), (${start + 20_000}, NULL, 1, 1, NULL, NULL)`.run();

  expect(await office.metrics()).toEqual({
    "idempotency_keys pending": 0,
    "idempotency_keys completed": 3,
    "idempotency_keys released": 0,
    idempotency_keys_orphaned: 0,
    idempotency_keys_expired: 2,
    idempotency_keys_counted_timestamp_seconds: clock.now() / 1000,
    idempotency_oldest_live_timestamp_seconds: start / 1000,
    idempotency_takeovers_total: 1,
    idempotency_fenced_out_total: 1,
    idempotency_evicted_total: 7,
    idempotency_eviction_lag_seconds: 90,
    idempotency_eviction_failing: 0,
    idempotency_eviction_last_run_timestamp_seconds: (start + 500) / 1000,
    idempotency_eviction_last_run_evicted: 4,
  });
});

test("they are text for Prometheus, which sends the operator's token", async () => {
  const { office } = await openCounted();
  const withoutToken = await openShop({ bindings: { ADMIN_TOKEN: "operator-token-of-the-test" } });
  const withoutOperator = await openShop();

  const scraped = await office.ask("/metrics");

  expect(scraped.status).toBe(200);
  expect(scraped.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  for (const path of ["/metrics", "/admin/ledger"]) {
    expect((await withoutToken.get(path)).status).toBe(401);
    expect((await withoutOperator.get(path)).status).toBe(404);
  }
});

test("a scrape of a large ledger reads no more than one of an empty one, but for one count an hour", async () => {
  const { clock, scrape } = await openCounted();
  const live = { expiresAt: clock.now() + RETENTION_MS, status: "completed" } as const;
  await plant("a", 40_000, live);

  const first = await scrape();
  await plant("b", 10, live);
  clock.advance(59 * MINUTE_MS);
  const kept = await scrape();
  clock.advance(MINUTE_MS);
  const again = await scrape();

  expect(first.metrics["idempotency_keys completed"]).toBe(40_000);
  expect(kept.metrics["idempotency_keys completed"]).toBe(40_000);
  expect(kept).toMatchObject({ trips: 1 });
  expect(kept.rowsRead).toBeLessThan(30);
  expect(again.metrics["idempotency_keys completed"]).toBe(40_010);
  expect(again.rowsRead).toBeLessThan(2 * 40_010 + 50);
});

test("a small ledger is counted anew for the next scrape", async () => {
  const { clock, scrape } = await openCounted();
  const live = { expiresAt: clock.now() + RETENTION_MS, status: "completed" } as const;
  await plant("a", 100, live);

  await scrape();
  await plant("b", 10, live);
  clock.advance(9_999);
  const kept = await scrape();
  clock.advance(1);
  const again = await scrape();

  expect(kept.metrics["idempotency_keys completed"]).toBe(100);
  expect(again.metrics["idempotency_keys completed"]).toBe(110);
});

test("the operator's page counts at once, and what it counted is kept for the metrics", async () => {
  const { clock, office, scrape } = await openCounted();
  const live = { expiresAt: clock.now() + RETENTION_MS, status: "completed" } as const;
  await plant("a", 100, live);
  await scrape();
  await plant("b", 10, live);

  const page = await office.ledger();

  expect(page.rows).toMatchObject({ completed: 110 });
  expect((await scrape()).metrics["idempotency_keys completed"]).toBe(110);
});

test("figures that need no counting are read anew with every scrape", async () => {
  const { clock, scrape } = await openCounted();
  await plant("a", 40_000, { expiresAt: clock.now() + RETENTION_MS, status: "completed" });
  await scrape();

  await plant("old", 1, { expiresAt: clock.now() - 5_000 });
  await sql`UPDATE ledger_figures SET evicted = 3, takeovers = 4, fenced_out = 5`.run();

  expect((await scrape()).metrics).toMatchObject({
    idempotency_eviction_lag_seconds: 5,
    idempotency_evicted_total: 3,
    idempotency_takeovers_total: 4,
    idempotency_fenced_out_total: 5,
  });
});

test("a count that fails leaves the alarm standing, and the last count beside it", async () => {
  const { clock, d1, office } = await openCounted();
  await plant("old", 10, { expiresAt: clock.now() - 2 * 3_600_000 });
  // The figures, then the count.
  d1.next(passes, callLost);
  const never = await office.metrics();
  await office.ledger();
  clock.advance(1_000);
  d1.next(passes, callLost);
  const once = await office.metrics();

  expect(never).toMatchObject({ idempotency_eviction_failing: 1 });
  expect(never).not.toHaveProperty("idempotency_keys_expired");
  expect(once).toMatchObject({
    idempotency_eviction_failing: 1,
    idempotency_keys_expired: 10,
    idempotency_keys_counted_timestamp_seconds: clock.now() / 1000 - 1,
  });
});
