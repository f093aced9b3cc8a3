import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { beforeEach, expect, test } from "vitest";

import { configOf } from "../../src/env.ts";
import { beginRun } from "../../src/idempotency/eviction.ts";
import { evictionFaults, readFigures } from "../../src/idempotency/figures.ts";
import { sweepUntilCaughtUp } from "../../src/idempotency/sweep.ts";
import { reconcile } from "../../src/payments/reconcile.ts";
import { numbersFrom } from "../../scripts/random.ts";
import { answerLost, callLost, faultyD1, gate, jitter, passes } from "./faulty-d1.ts";
import { openOffice } from "./operator.ts";
import { faultyProvider, pay, placeOrder } from "./payments.ts";
import { emptyLedger, plant } from "./planted.ts";
import { ledgerSize, openShop, postRequest, realPorts, shelve, sql, TestClock } from "./shop.ts";
import { stripe } from "./stripe-sandbox.ts";
import { mounting, PATH, succeed } from "./test-mutation.ts";

// Goal: every figure is right at every stage, by hand counting, and stays right when answers are lost and sweeps meet.

const PENDING_TTL_MS = 30_000;
const RETENTION_MS = 86_400_000;
const SETTINGS = { pendingTtlMs: PENDING_TTL_MS, evictionLagAlertMs: 3_600_000 };
const order = (product: string) => ({ items: [{ product_id: product, quantity: 1 }] });

beforeEach(emptyLedger);

/** Two doors to one shop, the first of which has faults, and the operator's, all at the time of one clock. */
async function openAll() {
  const clock = new TestClock();
  const d1 = faultyD1();
  const faulty = await openShop({ bindings: { DB: d1.DB }, ports: clock });
  const { account } = faulty;
  const healthy = await openShop({ account, ports: clock });
  const office = await openOffice({ account, clock });
  return { clock, d1, account, faulty, healthy, office, product: await shelve(account.id) };
}

test("an empty ledger has figures, too, and nothing is failing", async () => {
  const { clock, office } = await openAll();

  expect(await office.ledger()).toEqual({
    rows: {
      pending: 0,
      completed: 0,
      released: 0,
      orphaned: 0,
      expired: 0,
      counted_at: new Date(clock.now()).toISOString(),
    },
    oldest_live: null,
    takeovers: 0,
    fenced_out: 0,
    eviction: {
      failing: false,
      faults: [],
      lag_ms: 0,
      alert_ms: 3_600_000,
      evicted: 0,
      last_run: null,
      earlier_runs: [],
    },
  });
});

test("keys are counted by status, while they are pending and after they were completed or released", async () => {
  const { clock, d1, faulty, healthy, office, product } = await openAll();
  const failing = await openShop({
    ports: clock,
    mount: mounting(() => {
      throw new Error("on purpose");
    }),
  });
  const commit = gate();
  d1.next(passes, commit.fault);

  const running = faulty.post("/orders", order(product), "running");
  await commit.reached;
  clock.advance(1_000);
  await healthy.post("/orders", order(product), "done");
  await failing.post(PATH, {}, "failed");
  const during = await office.ledger();
  commit.open();
  await running;
  const after = await office.ledger();

  expect(during.rows).toMatchObject({ pending: 1, completed: 1, released: 1, orphaned: 0 });
  expect(during.oldest_live).toBe(new Date(clock.now() - 1_000).toISOString());
  expect(after.rows).toMatchObject({ pending: 0, completed: 2, released: 1, expired: 0 });
  expect(after).toMatchObject({ takeovers: 0, fenced_out: 0 });
});

test("a takeover and the commit that it fences out are counted once each", async () => {
  const { clock, d1, faulty, healthy, office, product } = await openAll();
  const commit = gate();
  d1.next(passes, commit.fault);

  const late = faulty.post("/orders", order(product), "k");
  await commit.reached;
  clock.advance(PENDING_TTL_MS);
  const successor = await healthy.post("/orders", order(product), "k");
  const afterTakeover = await office.ledger();
  commit.open();
  const answer = await late;
  const afterCommit = await office.ledger();

  expect(answer.body).toBe(successor.body);
  expect(afterTakeover).toMatchObject({ takeovers: 1, fenced_out: 0 });
  expect(afterCommit).toMatchObject({ takeovers: 1, fenced_out: 1, rows: { completed: 1 } });
});

test("a checkpoint that is fenced out is counted as a commit is", async () => {
  const { clock, account, office } = await openAll();
  const [asking, asked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const slow = await openShop({
    account,
    ports: clock,
    mount: mounting(async (context) => {
      asking.resolve();
      await asked.promise;
      const held = await context.checkpoint([]);
      return held.kind === "held" ? succeed(context) : held;
    }),
  });
  const quick = await openShop({ account, ports: clock, mount: mounting(succeed) });

  const late = slow.post(PATH, {}, "k");
  await asking.promise;
  clock.advance(PENDING_TTL_MS);
  await quick.post(PATH, {}, "k");
  asked.resolve();
  await late;

  expect(await office.ledger()).toMatchObject({ takeovers: 1, fenced_out: 1 });
});

test("a reconciler that is fenced out by the client's retry is counted, too", async () => {
  const { clock, account, healthy, office } = await openAll();
  const provider = faultyProvider();
  const dying = await openShop({
    account,
    bindings: { SANDBOX: provider.SANDBOX },
    ports: clock,
  });
  const paid = await placeOrder(healthy);
  const called = gate();
  provider.next(called.fault);
  const crashed = pay(dying, paid, "pay");
  await called.reached;

  clock.advance(2 * PENDING_TTL_MS + 1);
  const d1 = faultyD1();
  const commit = gate();
  // What is unsettled, its key, the claim, the checkpoint; the provider answers; then the commit.
  d1.next(passes, passes, passes, passes, commit.fault);
  const reconciling = reconcile({
    db: drizzle(d1.DB),
    ports: { ...realPorts, now: clock.now },
    settings: configOf(env),
    provider: { stripe, timeoutMs: 10_000 },
  });
  await commit.reached;
  clock.advance(PENDING_TTL_MS);
  const retry = await pay(healthy, paid, "pay");
  const before = await office.ledger();
  commit.open();
  const report = await reconciling;
  const after = await office.ledger();
  called.open();
  await crashed;

  expect(retry.status).toBe(201);
  expect(report.settled).toEqual([retry.json["id"]]);
  expect(before).toMatchObject({ takeovers: 2, fenced_out: 0 });
  expect(after).toMatchObject({ takeovers: 2, fenced_out: 1 });
  expect(await office.ledger()).toMatchObject({ takeovers: 2, fenced_out: 2 });
});

test("a claim that is sent twice took over once", async () => {
  const { d1, account, faulty, office, product } = await openAll();
  const failing = await openShop({
    account,
    mount: mounting(() => {
      throw new Error("on purpose");
    }),
  });
  await failing.post(PATH, {}, "failed");
  const released = await openShop({
    account,
    bindings: { DB: d1.DB },
    mount: mounting(succeed),
  });

  d1.next(answerLost);
  const answer = await released.post(PATH, {}, "failed");
  d1.next(answerLost);
  const fresh = await faulty.post("/orders", order(product), "fresh");

  expect([answer.status, fresh.status]).toEqual([200, 201]);
  expect(await office.ledger()).toMatchObject({ takeovers: 1, rows: { completed: 2 } });
});

test("a commit that is sent twice because its answer was lost was not fenced out", async () => {
  const { d1, faulty, office, product } = await openAll();

  d1.next(passes, answerLost);
  const answer = await faulty.post("/orders", order(product), "k");

  expect(answer.status).toBe(201);
  expect(await office.ledger()).toMatchObject({ takeovers: 0, fenced_out: 0 });
});

test("a count of the fenced-out that fails changes nothing in the answer", async () => {
  const { clock, d1, faulty, healthy, office, product } = await openAll();
  const commit = gate();
  // The claim, the commit, the look at the row; then the count, and the sweep.
  d1.next(passes, commit.fault, passes, callLost, callLost);

  const late = faulty.post("/orders", order(product), "k");
  await commit.reached;
  clock.advance(PENDING_TTL_MS);
  const successor = await healthy.post("/orders", order(product), "k");
  commit.open();
  const answer = await late;

  expect([answer.status, answer.body]).toEqual([201, successor.body]);
  expect(await office.ledger()).toMatchObject({ takeovers: 1, fenced_out: 0 });
});

test("the answer does not wait for that count", async () => {
  const { clock, d1, faulty, healthy, office, product } = await openAll();
  const [commit, count] = [gate(), gate()];
  d1.next(passes, commit.fault, passes, count.fault);
  const context = createExecutionContext();
  const request = postRequest(faulty.account, "/orders", order(product), "k");

  const late = faulty.app.fetch(request, faulty.bindings, context);
  await commit.reached;
  clock.advance(PENDING_TTL_MS);
  const successor = await healthy.post("/orders", order(product), "k");
  commit.open();
  const answer = await (await late).text();
  await count.reached;
  const before = await office.ledger();
  count.open();
  await waitOnExecutionContext(context);

  expect(answer).toBe(successor.body);
  expect([before.fenced_out, (await office.ledger()).fenced_out]).toEqual([0, 1]);
});

test("a pending key is orphaned when its lease is long over, and no more when somebody comes back", async () => {
  const { clock, d1, faulty, healthy, office, product } = await openAll();
  const commit = gate();
  d1.next(passes, commit.fault);
  const rowsAfter = async (ms: number) => {
    clock.advance(ms);
    return (await office.ledger()).rows;
  };

  const crashed = faulty.post("/orders", order(product), "k");
  await commit.reached;
  const atOnce = await rowsAfter(0);
  const leaseOver = await rowsAfter(2 * PENDING_TTL_MS - 1);
  const longOver = await rowsAfter(1);
  await healthy.post("/orders", order(product), "k");
  const cameBack = await rowsAfter(0);
  commit.open();
  await crashed;

  expect(atOnce).toMatchObject({ pending: 1, orphaned: 0 });
  expect(leaseOver).toMatchObject({ pending: 1, orphaned: 0 });
  expect(longOver).toMatchObject({ pending: 1, orphaned: 1 });
  expect(cameBack).toMatchObject({ pending: 0, completed: 1, orphaned: 0 });
});

test("a key whose lease was given up is orphaned only when its retry has had its time", async () => {
  const { clock, account, office } = await openAll();
  const unknown = await openShop({
    account,
    ports: clock,
    mount: mounting(() => ({ kind: "outcome_unknown" })),
  });

  await unknown.post(PATH, {}, "k");
  const atOnce = (await office.ledger()).rows;
  clock.advance(2 * PENDING_TTL_MS);

  expect(atOnce).toMatchObject({ pending: 1, orphaned: 0 });
  expect((await office.ledger()).rows).toMatchObject({ pending: 1, orphaned: 1 });
});

test("a key that was claimed under a longer window is orphaned no later for that", async () => {
  const { clock, office } = await openAll();
  const now = clock.now();
  const expiresAt = now + 7 * RETENTION_MS;
  const updatedAt = now - 2 * PENDING_TTL_MS;
  await plant("longer window", 1, { status: "pending", expiresAt, updatedAt });

  expect((await office.ledger()).rows).toMatchObject({ pending: 1, orphaned: 1 });
});

test("what the sweep after a request evicts is booked, for one row written", async () => {
  const { clock, d1, faulty, office, product } = await openAll();
  await plant("old", 25, { expiresAt: clock.now() - 1 });

  const costs = [];
  for (const key of ["k1", "k2", "k3"]) {
    await faulty.post("/orders", order(product), key);
    costs.push(d1.take().slice(-1)[0]);
  }

  expect(costs).toEqual([
    expect.objectContaining({ statements: 2, rowsWritten: 20 + 1 }),
    expect.objectContaining({ statements: 2, rowsWritten: 5 + 1 }),
    expect.objectContaining({ statements: 2, rowsWritten: 0 }),
  ]);
  expect((await office.ledger()).eviction).toMatchObject({ evicted: 25, last_run: null });
});

test("a sweep whose answer is lost is booked all the same, and one that never arrived is not", async () => {
  const { clock, d1, faulty, office, product } = await openAll();
  await plant("old", 25, { expiresAt: clock.now() - 1 });

  d1.next(passes, passes, answerLost);
  await faulty.post("/orders", order(product), "k1");
  clock.advance(10_000);
  d1.next(passes, passes, callLost);
  await faulty.post("/orders", order(product), "k2");

  expect(await ledgerSize("old")).toBe(5);
  expect((await office.ledger()).eviction.evicted).toBe(20);
});

test("an eviction that cannot be booked is a bug, and never goes unnoticed", async () => {
  const { clock, office } = await openAll();
  await plant("old", 2, { expiresAt: clock.now() - 1 });
  await sql`DELETE FROM ledger_figures`.run();

  const sweep = sweepUntilCaughtUp(drizzle(env.DB), { now: clock.now, ...SETTINGS });
  await expect(sweep).rejects.toThrow("bug: 2 evictions were not booked");
  expect((await office.ask("/metrics")).status).toBe(500);
  await sql`INSERT INTO ledger_figures (id) VALUES (1)`.run();
});

test("the cron's run is recorded: what it evicted, in how many batches, and how it ended", async () => {
  const { clock, office } = await openAll();
  const start = clock.now();
  await plant("old", 1_500, { expiresAt: start - 5_000 });
  await plant("held", 1, { expiresAt: start - 2_000, status: "pending", updatedAt: start });

  await sweepUntilCaughtUp(drizzle(env.DB), { now: clock.now, ...SETTINGS });

  expect((await office.ledger()).eviction).toMatchObject({
    evicted: 1_500,
    lag_ms: 2_000,
    last_run: {
      started_at: new Date(start).toISOString(),
      ended_at: new Date(start).toISOString(),
      duration_ms: 0,
      evicted: 1_500,
      batches: 2,
      caught_up: true,
      lag_ms: 2_000,
    },
    earlier_runs: [],
  });
});

test("a run whose answer is lost breaks off, and is recorded with all that it evicted", async () => {
  const { clock, office } = await openAll();
  await plant("old", 2_500, { expiresAt: clock.now() - 1 });
  const d1 = faultyD1();

  d1.next(passes, passes, answerLost);
  const broken = sweepUntilCaughtUp(drizzle(d1.DB), { now: clock.now, ...SETTINGS });
  await expect(broken).rejects.toThrow();
  const afterBreak = (await office.ledger()).eviction;
  await sweepUntilCaughtUp(drizzle(env.DB), { now: clock.now, ...SETTINGS });
  const afterNext = (await office.ledger()).eviction;

  expect(afterBreak).toMatchObject({
    evicted: 2_000,
    last_run: { evicted: 2_000, batches: 2, ended_at: null, caught_up: null, lag_ms: null },
  });
  expect(afterNext).toMatchObject({
    evicted: 2_500,
    last_run: { evicted: 500, batches: 1, caught_up: true },
    earlier_runs: [afterBreak.last_run],
  });
});

test("sweeps that run at once count every key once, in the total and over their runs", async () => {
  const { clock, office, account, product } = await openAll();
  await plant("old", 5_000, { expiresAt: clock.now() - 1 });
  await plant("live", 7, { expiresAt: clock.now() + 1 });
  const doors = await Promise.all(
    [1, 2, 3].map(async (seed) => {
      const d1 = faultyD1({ always: jitter(numbersFrom(seed)) });
      return {
        db: drizzle(d1.DB),
        shop: await openShop({ account, bindings: { DB: d1.DB }, ports: clock }),
      };
    }),
  );

  const reports = await Promise.all(
    doors.map(({ db }) => sweepUntilCaughtUp(db, { now: clock.now, ...SETTINGS })),
  );
  await plant("older", 60, { expiresAt: clock.now() - 1 });
  await Promise.all(doors.map(({ shop }, i) => shop.post("/orders", order(product), `k${i}`)));
  const { eviction, rows } = await office.ledger();

  const runs = [eviction.last_run!, ...eviction.earlier_runs];
  const sum = (counts: { evicted: number }[]) => counts.reduce((n, { evicted }) => n + evicted, 0);
  expect(runs).toHaveLength(3);
  expect([sum(runs), sum(reports)]).toEqual([5_000, 5_000]);
  expect(eviction.evicted).toBe(5_060);
  expect(rows).toMatchObject({ released: 7, completed: 3, pending: 0 });
});

test("a day of runs is kept, and the last twenty are shown", async () => {
  const { clock, office } = await openAll();
  await sql`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
    INSERT INTO sweep_runs (started_at, ended_at) SELECT i, i FROM n`.run();

  await sweepUntilCaughtUp(drizzle(env.DB), { now: clock.now, ...SETTINGS });

  const kept = await sql`SELECT count(*) AS n, min(id) AS first FROM sweep_runs`.first();
  const { last_run, earlier_runs } = (await office.ledger()).eviction;
  expect(kept).toEqual({ n: 288, first: 114 });
  expect(last_run!.started_at).toBe(new Date(clock.now()).toISOString());
  expect(earlier_runs.map(({ started_at }) => Date.parse(started_at))).toEqual(
    Array.from({ length: 19 }, (_, i) => 400 - i),
  );
});

/** Runs that began one every five minutes, the last one now, and broke off. */
const brokenRuns = (count: number, now: number) =>
  sql`WITH RECURSIVE n (i) AS (SELECT ${count - 1} UNION ALL SELECT i - 1 FROM n WHERE i > 0)
    INSERT INTO sweep_runs (started_at) SELECT ${now} - i * 300000 FROM n`.run();

test.each([
  ["the last that ended did so ten hours ago", 119, true],
  ["the last that ended did so more than a day ago", 300, true],
  ["none has ever ended", 300, false],
])("runs that break off say that the cron has stopped: %s", async (_, count, hasEnded) => {
  const { clock, office } = await openAll();
  const now = clock.now();
  const before = now - count * 300_000;
  if (hasEnded) {
    await sql`INSERT INTO sweep_runs (started_at, ended_at, evicted) VALUES (${before}, ${before}, 7)`.run();
  } else await brokenRuns(1, before);
  await brokenRuns(count, now);
  await beginRun(drizzle(env.DB), now);

  const figures = await readFigures(drizzle(env.DB), now);
  const faultsAt = (evictionLagAlertMs: number) =>
    evictionFaults(figures, { now, evictionLagAlertMs });
  const metrics = await office.metrics();

  expect(faultsAt(now - before)).toEqual([]);
  expect(faultsAt(now - before - 1)).toEqual(["stopped"]);
  expect(faultsAt(3_600_000)).toEqual(["stopped"]);
  expect(metrics["idempotency_eviction_last_run_timestamp_seconds"]).toBe(
    hasEnded ? before / 1000 : undefined,
  );
  expect(metrics["idempotency_eviction_last_run_evicted"]).toBe(hasEnded ? 7 : undefined);
});

test("a run that ended in time to come does not hide that the cron has stopped", async () => {
  const { clock } = await openAll();
  const now = clock.now();
  const [before, ahead] = [now - 4 * 3_600_000, now + 10 * 3_600_000];
  await sql`INSERT INTO sweep_runs (started_at, ended_at) VALUES (${before}, ${before}), (${ahead}, ${ahead})`.run();

  const figures = await readFigures(drizzle(env.DB), now);

  expect(evictionFaults(figures, { now, evictionLagAlertMs: 3_600_000 })).toEqual(["stopped"]);
});

test("a ledger larger than one chunk is counted to the row, whoever its principals are", async () => {
  const { clock, office } = await openAll();
  const now = clock.now();
  const live = now + RETENTION_MS;
  await plant("a", 19_999, { expiresAt: live, status: "completed" });
  // The first chunk ends here, between two principals, and the second one in the middle of the next.
  await plant("b", 1, { expiresAt: live, status: "pending", updatedAt: now });
  await plant("b", 3, { expiresAt: now - 1 });
  await plant("c", 25_000, { expiresAt: live, status: "completed" });
  await plant("d", 4, { expiresAt: now + 1, status: "pending", updatedAt: 0 });

  expect((await office.ledger()).rows).toMatchObject({
    pending: 5,
    completed: 44_999,
    released: 3,
    orphaned: 4,
    expired: 3,
  });
});
