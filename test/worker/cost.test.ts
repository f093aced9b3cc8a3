import { env } from "cloudflare:workers";
import { expect, test } from "vitest";

import { faultyD1, gate, passes } from "./faulty-d1.ts";
import { openShop, shelve, sql, TestClock } from "./shop.ts";
import { mounting, PATH, succeed } from "./test-mutation.ts";

// Goal: what a keyed request costs is counted, never guessed. A round trip is one message to D1; rows written are what
// D1 bills. The trips and rows of the sweep come after the answer and are left out by stopping it.

const PENDING_TTL_MS = 30_000;
const order = (product: string, quantity = 1) => ({ items: [{ product_id: product, quantity }] });

async function countingShop() {
  const clock = new TestClock();
  const d1 = faultyD1();
  const { account, post } = await openShop({
    bindings: { DB: d1.DB, SERVER_TIMING: "on" },
    ports: clock,
  });
  const product = await shelve(account.id);
  // The first keyed request of an isolate sweeps, finds nothing, and leaves the table alone for a while.
  await post("/orders", order(product), "first");
  d1.take();
  return { clock, d1, account, post, product };
}

test("a fresh order takes two round trips", async () => {
  const { d1, post, product } = await countingShop();
  const answer = await post("/orders", order(product), "k");

  expect(answer.status).toBe(201);
  expect(d1.take()).toHaveLength(2);
  expect(answer.headers.get("server-timing")).toMatch(
    /^d1;desc="round trips 2";dur=\d+, claim;dur=\d+, run;dur=\d+, commit;dur=\d+$/,
  );
});

test("a replay takes one round trip and writes no row", async () => {
  const { d1, post, product } = await countingShop();
  const replay = await post("/orders", order(product), "first");

  expect(replay.headers.get("idempotent-replayed")).toBe("true");
  expect(d1.take()).toEqual([expect.objectContaining({ rowsWritten: 0 })]);
});

test("a reused key takes one round trip and writes no row", async () => {
  const { d1, post, product } = await countingShop();
  const reused = await post("/orders", order(product, 2), "first");

  expect(reused.status).toBe(422);
  expect(d1.take()).toEqual([expect.objectContaining({ rowsWritten: 0 })]);
});

test("an answer in progress takes one round trip and writes no row; a takeover takes two", async () => {
  const { clock, d1, account, post, product } = await countingShop();
  const stalled = faultyD1();
  const slow = await openShop({ account, bindings: { DB: stalled.DB }, ports: clock });
  const commit = gate();
  stalled.next(passes, commit.fault);
  const late = slow.post("/orders", order(product), "k");
  await commit.reached;

  const inProgress = await post("/orders", order(product), "k");
  const tripsInProgress = d1.take();
  clock.advance(PENDING_TTL_MS + 1);
  // Past its quiet time the sweep would run too; a duplicate of an old key absorbs it.
  await post("/orders", order(product), "first");
  d1.take();
  const takeover = await post("/orders", order(product), "k");
  const tripsOfTakeover = d1.take();
  commit.open();
  await late;

  expect(inProgress.status).toBe(409);
  expect(tripsInProgress).toEqual([expect.objectContaining({ rowsWritten: 0 })]);
  expect(takeover.status).toBe(201);
  expect(tripsOfTakeover).toHaveLength(2);
});

test("the ledger writes three rows for a fresh key", async () => {
  const { d1, post, product } = await countingShop();
  // A refusal has no business writes: every row is the ledger's.
  const refused = await post("/orders", order(product, 1_000), "k");
  const rows = d1.take().map((trip) => trip.rowsWritten);

  expect(refused.json["error"]).toBe("insufficient_stock");
  expect(rows).toEqual([2, 1]);
});

test("a takeover writes one row more, which counts it", async () => {
  const { clock, d1, account } = await countingShop();
  const failing = await openShop({
    account,
    ports: clock,
    mount: mounting(() => {
      throw new Error("on purpose");
    }),
  });
  await failing.post(PATH, {}, "k");
  const working = await openShop({
    account,
    bindings: { DB: d1.DB },
    ports: clock,
    mount: mounting(succeed),
  });
  d1.take();

  const takeover = await working.post(PATH, {}, "k");
  const [claim, commit] = d1.take().map((trip) => trip.rowsWritten);

  expect(takeover.status).toBe(200);
  expect([claim, commit]).toEqual([3, 1]);
});

test("a fenced-out commit is counted after its answer, for one row", async () => {
  const { clock, d1, account, post, product } = await countingShop();
  const stalled = faultyD1();
  const slow = await openShop({
    account,
    bindings: { DB: stalled.DB, SERVER_TIMING: "on" },
    ports: clock,
  });
  const commit = gate();
  stalled.next(passes, commit.fault);
  const late = slow.post("/orders", order(product), "k");
  await commit.reached;
  clock.advance(PENDING_TTL_MS);
  await post("/orders", order(product), "k");
  d1.take();
  stalled.take();
  commit.open();

  // Its claim, its refused commit, and its look at what its successor answered.
  expect((await late).headers.get("server-timing")).toContain('desc="round trips 3"');
  const written = stalled.take().filter(({ rowsWritten }) => rowsWritten > 0);
  expect(written).toEqual([expect.objectContaining({ statements: 1, rowsWritten: 1 })]);
});

test("an order of 50 products takes as many statements and round trips as an order of one", async () => {
  const { d1, account, post, product } = await countingShop();
  const fifty = await Promise.all(Array.from({ length: 50 }, () => shelve(account.id)));

  await post("/orders", order(product), "one");
  const one = d1.take().map((trip) => trip.statements);
  const large = await post(
    "/orders",
    { items: fifty.map((id) => ({ product_id: id, quantity: 2 })) },
    "fifty",
  );
  const many = d1.take().map((trip) => trip.statements);

  expect(large.json["items"]).toHaveLength(50);
  expect(many).toEqual(one);
});

test("an order reads the products it names, not the catalogue", async () => {
  const { d1, account, post, product } = await countingShop();
  await sql`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
    INSERT INTO products SELECT 'prod_' || i || ${account.id}, ${account.id}, 'sku' || i, 'n', 1, 'EUR', 1, 0
    FROM n`.run();
  d1.take();

  await post("/orders", order(product), "k");
  const ofOrder = d1.take().map((trip) => trip.rowsRead);
  await post("/orders", order(product), "k");
  const ofReplay = d1.take().map((trip) => trip.rowsRead);

  expect(Math.max(...ofOrder, ...ofReplay)).toBeLessThan(20);
});

test("authentication costs one round trip for an unknown account and none once it is known", async () => {
  const d1 = faultyD1();
  const { account, get } = await openShop({ bindings: { DB: d1.DB } });
  const first = d1.take();
  await get("/products");
  const second = d1.take();

  expect(account.id).toMatch(/^acct_/);
  expect(first).toHaveLength(2);
  expect(second).toHaveLength(1);
});

test("the ledger is STRICT and WITHOUT ROWID, and so is every table with a key of its own", async () => {
  const { results } = await env.DB.prepare("PRAGMA table_list").all<{
    name: string;
    strict: number;
    wr: number;
  }>();
  const own = results.filter(({ name }) => !/^(sqlite_|_cf_|d1_)/.test(name));

  expect(Object.fromEntries(own.map(({ name, strict, wr }) => [name, [strict, wr]]))).toEqual({
    accounts: [1, 1],
    idempotency_fence: [1, 0],
    idempotency_keys: [1, 1],
    // Their key is an integer, which is the row's own number already.
    lab_keys: [1, 1],
    ledger_figures: [1, 0],
    order_items: [1, 1],
    orders: [1, 1],
    payments: [1, 1],
    products: [1, 1],
    refunds: [1, 1],
    stock_adjustments: [1, 1],
    sweep_runs: [1, 0],
  });
});
