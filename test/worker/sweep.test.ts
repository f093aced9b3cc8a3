import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { afterEach, expect, test } from "vitest";

import { sweepUntilCaughtUp } from "../../src/idempotency/sweep.ts";
import { callLost, faultyD1, gate, passes } from "./faulty-d1.ts";
import { openOffice } from "./operator.ts";
import { plant } from "./planted.ts";
import { ledgerSize, openShop, shelve, sql, TestClock } from "./shop.ts";

const RETENTION_MS = 86_400_000;
const SETTINGS = { pendingTtlMs: 30_000, evictionLagAlertMs: 3_600_000 };
const order = (product: string) => ({ items: [{ product_id: product, quantity: 1 }] });

/** A clock that goes on by so much whenever it is read. */
const ticking = (start: number, ms: number) => {
  let next = start;
  return () => (next += ms) - ms;
};

afterEach(async () => void (await sql`DELETE FROM idempotency_keys`.run()));

test("an expired row that no sweep has reached still replays", async () => {
  const clock = new TestClock();
  const { account, post } = await openShop({ ports: clock });
  const product = await shelve(account.id);
  const first = await post("/orders", order(product), "k");

  // The claim comes before the sweep that follows its answer.
  clock.advance(RETENTION_MS + 1);
  const replay = await post("/orders", order(product), "k");

  expect(replay.body).toBe(first.body);
  expect(replay.headers.get("idempotent-replayed")).toBe("true");
});

test("after its answer a keyed request deletes at most one batch of expired rows", async () => {
  const clock = new TestClock();
  const { account, post } = await openShop({ ports: clock });
  const product = await shelve(account.id);
  await plant("old", 50, { expiresAt: clock.now() - 1 });

  await post("/orders", order(product), "k1");
  const afterOne = await ledgerSize("old");
  await post("/orders", order(product), "k2");
  await post("/orders", order(product), "k3");
  const afterThree = await ledgerSize("old");

  expect(afterOne).toBe(30);
  expect(afterThree).toBe(0);
  expect(await ledgerSize(account.id)).toBe(3);
});

test("a sweep that found nothing is not repeated for a while", async () => {
  const clock = new TestClock();
  const { account, post } = await openShop({ ports: clock });
  const product = await shelve(account.id);
  await post("/orders", order(product), "k1");
  await plant("old", 1, { expiresAt: clock.now() - 1 });

  await post("/orders", order(product), "k2");
  const soon = await ledgerSize("old");
  clock.advance(10_000);
  await post("/orders", order(product), "k3");

  expect(soon).toBe(1);
  expect(await ledgerSize("old")).toBe(0);
});

test("a failing sweep does not touch the answer", async () => {
  const d1 = faultyD1();
  const { account, post } = await openShop({ bindings: { DB: d1.DB } });
  const product = await shelve(account.id);

  d1.next(passes, passes, callLost);
  const answer = await post("/orders", order(product), "k");

  expect(answer.status).toBe(201);
});

test("live rows, completed, released or pending, are never swept", async () => {
  const now = Date.now();
  const clock = new TestClock();
  const d1 = faultyD1();
  const { account, post } = await openShop({ bindings: { DB: d1.DB }, ports: clock });
  const product = await shelve(account.id);
  await post("/orders", order(product), "completed");
  const commit = gate();
  d1.next(passes, commit.fault);
  const running = post("/orders", order(product), "running");
  await commit.reached;
  await plant("live", 3, { expiresAt: now + 1_000 });

  const report = await sweepUntilCaughtUp(drizzle(env.DB), { now: () => now, ...SETTINGS });
  commit.open();

  expect(report).toMatchObject({ evicted: 0, batches: 1, lagMs: 0 });
  expect((await running).status).toBe(201);
  expect(await ledgerSize("live")).toBe(3);
  expect(await ledgerSize(account.id)).toBe(2);
});

test("an expired row whose lease was just renewed is left to its owner; an orphaned one goes", async () => {
  const now = Date.now();
  await plant("renewed", 1, { expiresAt: now - 1, status: "pending", updatedAt: now });
  await plant("orphaned", 1, { expiresAt: now - 1, status: "pending", updatedAt: now - 30_001 });

  await sweepUntilCaughtUp(drizzle(env.DB), { now: () => now, ...SETTINGS });

  expect(await ledgerSize("renewed")).toBe(1);
  expect(await ledgerSize("orphaned")).toBe(0);
});

test("an expired row whose lease begins further ahead than it is long goes, too: its clock was wrong", async () => {
  const now = Date.now();
  const office = await openOffice({});
  const expired = { expiresAt: now - 1, status: "pending" } as const;
  await plant("a little ahead", 1, { ...expired, updatedAt: now + 30_000 });
  await plant("far ahead", 1, { ...expired, updatedAt: now + 3_600_000 });
  const { rows } = await office.ledger();

  const report = await sweepUntilCaughtUp(drizzle(env.DB), { now: () => now, ...SETTINGS });

  expect(rows).toMatchObject({ pending: 2, orphaned: 1 });
  expect(await ledgerSize("a little ahead")).toBe(1);
  expect(await ledgerSize("far ahead")).toBe(0);
  expect(report).toMatchObject({ evicted: 1 });
});

test("a lease that begins while the cron's sweep is running is left to its owner", async () => {
  const start = Date.now();
  const pendingTtlMs = 5_000;
  await plant("old", 1_000, { expiresAt: start - 2 });
  const begunInTheSecondBatch = { status: "pending", updatedAt: start + 7_000 } as const;
  await plant("renewed", 1, { expiresAt: start - 1, ...begunInTheSecondBatch });

  const report = await sweepUntilCaughtUp(drizzle(env.DB), {
    ...SETTINGS,
    now: ticking(start, 7_000),
    pendingTtlMs,
  });

  expect(report).toMatchObject({ evicted: 1_000, batches: 2 });
  expect(await ledgerSize("renewed")).toBe(1);
});

test("the cron's sweep works through bounded batches until caught up, and says what is left", async () => {
  const now = Date.now();
  await plant("old", 2_345, { expiresAt: now - 5_000 });
  await plant("live", 1, { expiresAt: now + RETENTION_MS - 7_000 });

  const report = await sweepUntilCaughtUp(drizzle(env.DB), { now: () => now, ...SETTINGS });

  expect(report).toEqual({
    evicted: 2_345,
    batches: 3,
    isCaughtUp: true,
    oldestLiveMs: 7_000,
    lagMs: 0,
    isLagging: false,
  });
});

test("the cron's sweep stops when its budget is spent, and reports the lag", async () => {
  const start = Date.now();
  await plant("old", 3_100, { expiresAt: start - 5_000 });

  const report = await sweepUntilCaughtUp(drizzle(env.DB), {
    now: ticking(start, 7_000),
    ...SETTINGS,
  });

  expect(report).toMatchObject({
    evicted: 3_000,
    batches: 3,
    isCaughtUp: false,
    lagMs: 26_000,
  });
  expect(await ledgerSize("old")).toBe(100);
});
