import { expect, test } from "vitest";

import { answerLost, callLost, delayed, faultyD1, gate, overloaded, passes } from "./faulty-d1.ts";
import { mounting, PATH, succeed } from "./test-mutation.ts";
import {
  type Account,
  ledgerRow,
  openShop,
  ordersOf,
  shelve,
  sql,
  stockOf,
  TestClock,
} from "./shop.ts";

const PENDING_TTL_MS = 30_000;
const order = (product: string, quantity = 1) => ({ items: [{ product_id: product, quantity }] });

/** Two doors to one shop, on one clock: through `faulty` every message to D1 can be made to fail. */
async function twoDoors() {
  const clock = new TestClock();
  const d1 = faultyD1();
  const faulty = await openShop({ bindings: { DB: d1.DB }, ports: clock });
  const { account } = faulty;
  const healthy = await openShop({ account, ports: clock });
  const product = await shelve(account.id);
  return { clock, d1, faulty, healthy, account, product };
}

async function priceRises(product: string) {
  await sql`UPDATE products SET unit_price = unit_price + 1 WHERE id = ${product}`.run();
}

async function expectOneOrder(account: Account, product: string) {
  expect(await ordersOf(account.id)).toHaveLength(1);
  expect(await stockOf(product)).toBe(99);
}

test("case 10: a commit whose answer is lost for good is not released, and a retry replays", async () => {
  const { d1, faulty, healthy, account, product } = await twoDoors();

  d1.next(passes, answerLost, callLost, callLost, callLost);
  const unknown = await faulty.post("/orders", order(product), "k");
  const row = await ledgerRow(account.id, "k");
  const retry = await healthy.post("/orders", order(product), "k");

  expect(unknown.json).toMatchObject({ status: 503, error: "outcome_unknown", retryable: true });
  expect(row).toMatchObject({ status: "completed" });
  expect(retry.status).toBe(201);
  expect(retry.headers.get("idempotent-replayed")).toBe("true");
  await expectOneOrder(account, product);
});

test("case 11: a commit whose answer was lost is found again, not done again", async () => {
  const { d1, faulty, healthy, account, product } = await twoDoors();

  d1.next(passes, answerLost);
  const answer = await faulty.post("/orders", order(product), "k");
  const replay = await healthy.post("/orders", order(product), "k");

  expect(answer.status).toBe(201);
  expect(answer.headers.get("idempotent-replayed")).toBe("false");
  expect(replay.body).toBe(answer.body);
  await expectOneOrder(account, product);
});

test("case 11: a commit that never arrived is sent again", async () => {
  const { d1, faulty, account, product } = await twoDoors();

  d1.next(passes, callLost, callLost);
  const answer = await faulty.post("/orders", order(product), "k");

  expect(answer.status).toBe(201);
  await expectOneOrder(account, product);
});

test("case 11: a commit that never gets through gives the lease up, and the next try finishes at once", async () => {
  const { d1, faulty, healthy, account, product } = await twoDoors();

  d1.next(passes, callLost, callLost, callLost);
  const unknown = await faulty.post("/orders", order(product), "k");
  const row = await ledgerRow(account.id, "k");
  const retry = await healthy.post("/orders", order(product), "k");

  expect(unknown.json).toMatchObject({ status: 503, error: "outcome_unknown" });
  expect(row).toMatchObject({ status: "pending", updated_at: 0 });
  expect(retry.status).toBe(201);
  expect(retry.json["id"]).toBe(`ord_${row!.operation_id}`);
  await expectOneOrder(account, product);
});

test("case 11: a commit that lands after a takeover leaves nothing behind", async () => {
  const { d1, faulty, healthy, account, product } = await twoDoors();
  const late = delayed();

  d1.next(passes, late.fault, callLost, callLost);
  await faulty.post("/orders", order(product), "k");
  await priceRises(product);
  const retry = await healthy.post("/orders", order(product), "k");
  const landing = await late.land();
  const replay = await healthy.post("/orders", order(product), "k");

  expect(landing).toBe("refused");
  expect(retry.json).toMatchObject({ total: 1001 });
  expect(replay.body).toBe(retry.body);
  expect(await ordersOf(account.id)).toEqual([expect.objectContaining({ total: 1001 })]);
  await expectOneOrder(account, product);
});

test("case 11: a commit that lands before its own second sending is answered once", async () => {
  const { d1, faulty, account, product } = await twoDoors();
  const late = delayed();

  d1.next(passes, late.fault, async (send) => {
    await late.land();
    return send();
  });
  const answer = await faulty.post("/orders", order(product), "k");

  expect(answer.status).toBe(201);
  expect(answer.headers.get("idempotent-replayed")).toBe("false");
  expect(await ledgerRow(account.id, "k")).toMatchObject({ response_body: answer.body });
  await expectOneOrder(account, product);
});

test("case 12: a slow owner that was taken over answers with its successor's response, and leaves no rows", async () => {
  const { clock, d1, faulty, healthy, account, product } = await twoDoors();
  const commit = gate();

  d1.next(passes, commit.fault);
  const slow = faulty.post("/orders", order(product), "k");
  await commit.reached;
  clock.advance(PENDING_TTL_MS + 1);
  await priceRises(product);
  const canonical = await healthy.post("/orders", order(product), "k");
  commit.open();
  const late = await slow;

  expect(canonical.json).toMatchObject({ total: 1001 });
  expect([late.status, late.body]).toEqual([201, canonical.body]);
  expect(late.headers.get("idempotent-replayed")).toBe("true");
  expect(late.headers.get("location")).toBe(canonical.headers.get("location"));
  expect(await ordersOf(account.id)).toEqual([expect.objectContaining({ total: 1001 })]);
  await expectOneOrder(account, product);
});

test("case 12: a fenced-out owner whose successor is still executing answers 409", async () => {
  const { clock, d1, faulty, account, product } = await twoDoors();
  const [first, second] = [gate(), gate()];
  const d1OfSuccessor = faultyD1();
  const successor = await openShop({ account, bindings: { DB: d1OfSuccessor.DB }, ports: clock });

  d1.next(passes, first.fault);
  d1OfSuccessor.next(passes, second.fault);
  const slow = faulty.post("/orders", order(product), "k");
  await first.reached;
  clock.advance(PENDING_TTL_MS + 1);
  const canonical = successor.post("/orders", order(product), "k");
  await second.reached;
  first.open();
  const late = await slow;
  second.open();

  expect(late.json).toMatchObject({
    status: 409,
    error: "idempotency_key_in_progress",
    takeover_after_ms: PENDING_TTL_MS,
  });
  expect((await canonical).status).toBe(201);
  await expectOneOrder(account, product);
});

test("case 13: an owner that fails after it was taken over does not touch its successor's row", async () => {
  const clock = new TestClock();
  const work = gate();
  const slow = await openShop({
    ports: clock,
    mount: mounting(() => work.fault(() => Promise.reject(new Error("too late")))),
  });
  const { account } = slow;
  const healthy = await openShop({ account, ports: clock, mount: mounting(succeed) });

  const failure = slow.post(PATH, {}, "k");
  await work.reached;
  clock.advance(PENDING_TTL_MS + 1);
  const canonical = await healthy.post(PATH, {}, "k");
  const row = await ledgerRow(account.id, "k");
  work.open();

  expect((await failure).json).toMatchObject({ status: 500, error: "internal_error" });
  expect(canonical.status).toBe(200);
  expect(row).toMatchObject({ status: "completed", generation: 2 });
  expect(await ledgerRow(account.id, "k")).toEqual(row);
});

test("case 13: an owner that fails does not release the claim of a successor that is executing", async () => {
  const clock = new TestClock();
  const [first, second] = [gate(), gate()];
  const slow = await openShop({
    ports: clock,
    mount: mounting(() => first.fault(() => Promise.reject(new Error("too late")))),
  });
  const { account } = slow;
  const successor = await openShop({
    account,
    ports: clock,
    mount: mounting((context) => second.fault(async () => succeed(context))),
  });

  const failure = slow.post(PATH, {}, "k");
  await first.reached;
  clock.advance(PENDING_TTL_MS);
  const canonical = successor.post(PATH, {}, "k");
  await second.reached;
  const row = await ledgerRow(account.id, "k");
  first.open();
  await failure;

  expect(row).toMatchObject({ status: "pending", generation: 2 });
  expect(await ledgerRow(account.id, "k")).toEqual(row);
  second.open();
  expect((await canonical).status).toBe(200);
});

test("case 13: an owner that gives up after it was taken over does not end its successor's lease", async () => {
  const { clock, d1, faulty, account, product } = await twoDoors();
  const [first, second] = [gate(), gate()];
  const d1OfSuccessor = faultyD1();
  const successor = await openShop({ account, bindings: { DB: d1OfSuccessor.DB }, ports: clock });

  d1.next(passes, callLost, callLost, callLost, first.fault);
  d1OfSuccessor.next(passes, second.fault);
  const unknown = faulty.post("/orders", order(product), "k");
  await first.reached;
  clock.advance(PENDING_TTL_MS + 1);
  const canonical = successor.post("/orders", order(product), "k");
  await second.reached;
  const row = await ledgerRow(account.id, "k");
  first.open();
  await unknown;

  expect(row).toMatchObject({ status: "pending", generation: 2 });
  expect(await ledgerRow(account.id, "k")).toEqual(row);
  second.open();
  expect((await canonical).status).toBe(201);
});

test("case 14: an owner from before a release cannot commit into a later claim", async () => {
  const { clock, d1, faulty, healthy, account, product } = await twoDoors();
  const commit = gate();
  d1.next(passes, commit.fault);
  const ancient = faulty.post("/orders", order(product), "k");
  await commit.reached;
  const first = await ledgerRow(account.id, "k");

  // Its claim goes stale; a second owner takes over, fails and releases; a third one claims again.
  await sql`UPDATE idempotency_keys SET generation = 2, owner = 'second', status = 'released'
    WHERE principal = ${account.id}`.run();
  clock.advance(PENDING_TTL_MS + 1);
  await priceRises(product);
  const third = await healthy.post("/orders", order(product), "k");
  commit.open();

  expect(first).toMatchObject({ generation: 1 });
  expect(await ledgerRow(account.id, "k")).toMatchObject({ generation: 3, status: "completed" });
  expect((await ancient).body).toBe(third.body);
  expect(await ordersOf(account.id)).toEqual([expect.objectContaining({ total: 1001 })]);
});

/** A shop whose attempts all draw the same id: only the generation can tell two owners apart. */
const drawing = (id: string, clock: TestClock) => ({
  now: clock.now,
  sleep: clock.sleep,
  newId: () => id,
});

test("case 14: the generation alone fences an owner whose id came back", async () => {
  const clock = new TestClock();
  const [d1, d1OfSuccessor] = [faultyD1(), faultyD1()];
  const ports = drawing("one-and-the-same", clock);
  const slow = await openShop({ bindings: { DB: d1.DB }, ports });
  const { account } = slow;
  const successor = await openShop({ account, bindings: { DB: d1OfSuccessor.DB }, ports });
  const product = await shelve(account.id);
  const [first, second] = [gate(), gate()];

  d1.next(passes, first.fault);
  d1OfSuccessor.next(passes, second.fault);
  const late = slow.post("/orders", order(product), "k");
  await first.reached;
  await sql`UPDATE idempotency_keys SET status = 'released' WHERE principal = ${account.id}`.run();
  const canonical = successor.post("/orders", order(product), "k");
  await second.reached;
  first.open();

  expect((await late).json).toMatchObject({ status: 409, error: "idempotency_key_in_progress" });
  expect(await ordersOf(account.id)).toEqual([]);
  second.open();
  expect((await canonical).status).toBe(201);
});

test("case 14: the owner alone fences an attempt whose row was evicted and claimed anew", async () => {
  const clock = new TestClock();
  const [d1, d1OfSuccessor] = [faultyD1(), faultyD1()];
  const slow = await openShop({ bindings: { DB: d1.DB }, ports: drawing("first", clock) });
  const { account } = slow;
  const successor = await openShop({
    account,
    bindings: { DB: d1OfSuccessor.DB },
    ports: drawing("second", clock),
  });
  const product = await shelve(account.id);
  const [first, second] = [gate(), gate()];

  d1.next(passes, first.fault);
  d1OfSuccessor.next(passes, second.fault);
  const ancient = slow.post("/orders", order(product), "k");
  await first.reached;
  // Its window has ended long ago and the sweep has been there, so the generation starts again.
  await sql`DELETE FROM idempotency_keys WHERE principal = ${account.id}`.run();
  const canonical = successor.post("/orders", order(product), "k");
  await second.reached;
  first.open();

  expect((await ancient).json).toMatchObject({ status: 409, error: "idempotency_key_in_progress" });
  expect(await ledgerRow(account.id, "k")).toMatchObject({ generation: 1, owner: "second" });
  expect(await ordersOf(account.id)).toEqual([]);
  second.open();
  expect((await canonical).status).toBe(201);
});

test("case 14: an owner whose row was evicted answers that the key can be tried again", async () => {
  const { d1, faulty, account, product } = await twoDoors();
  const commit = gate();

  d1.next(passes, commit.fault);
  const ancient = faulty.post("/orders", order(product), "k");
  await commit.reached;
  await sql`DELETE FROM idempotency_keys WHERE principal = ${account.id}`.run();
  commit.open();

  expect((await ancient).json).toMatchObject({
    status: 409,
    error: "idempotency_key_retry",
    retryable: true,
  });
  expect((await ancient).headers.get("retry-after")).toBe("1");
  expect(await ordersOf(account.id)).toEqual([]);
});

test("case 15: a request that can be mended does not use up its key", async () => {
  const { healthy, account, product } = await twoDoors();

  const invalid = await healthy.post("/orders", { items: [] }, "k");
  const row = await ledgerRow(account.id, "k");
  const mended = await healthy.post("/orders", order(product), "k");

  expect(invalid.json).toMatchObject({ status: 400, error: "invalid_request", retryable: false });
  expect(row).toBeNull();
  expect(mended.status).toBe(201);
});

test("case 15: a business refusal is stored and replayed, also when the reason is gone", async () => {
  const { healthy, account, product } = await twoDoors();

  const refused = await healthy.post("/orders", order(product, 101), "k");
  await healthy.post(`/products/${product}/stock-adjustments`, { delta: 1000 }, "more");
  const replay = await healthy.post("/orders", order(product, 101), "k");

  expect(refused.json).toMatchObject({
    status: 409,
    error: "insufficient_stock",
    retryable: false,
    products: [{ product_id: product, available: 100 }],
  });
  expect([replay.status, replay.body]).toEqual([409, refused.body]);
  expect(replay.headers.get("content-type")).toBe("application/problem+json");
  expect(replay.headers.get("idempotent-replayed")).toBe("true");
  expect(await ledgerRow(account.id, "k")).toMatchObject({
    status: "completed",
    response_status: 409,
  });
  expect(await ordersOf(account.id)).toEqual([]);
});

test("case 16: no row can be pending and hold an answer", async () => {
  const { healthy, account, product } = await twoDoors();
  const first = await healthy.post("/orders", order(product), "k");
  // What no code writes: a pending row that still carries an answer. The table refuses it, too.
  const forged = sql`UPDATE idempotency_keys SET status = 'pending', updated_at = ${Date.now()}
    WHERE principal = ${account.id}`;

  await expect(forged.run()).rejects.toThrow("idempotency_keys_response");
  expect((await healthy.post("/orders", order(product), "k")).body).toBe(first.body);
});

test("case 16: a completed row never blocks and is never taken over, however old its lease", async () => {
  const { clock, healthy, account, product } = await twoDoors();
  const first = await healthy.post("/orders", order(product), "k");
  const row = await ledgerRow(account.id, "k");

  clock.advance(PENDING_TTL_MS * 10);
  const replay = await healthy.post("/orders", order(product), "k");

  expect(replay.body).toBe(first.body);
  expect(replay.headers.get("idempotent-replayed")).toBe("true");
  expect(await ledgerRow(account.id, "k")).toEqual(row);
});

test("an overloaded database sheds a commit at once; nothing happened, and the next try executes", async () => {
  const { d1, faulty, healthy, account, product } = await twoDoors();

  d1.next(passes, overloaded);
  const shed = await faulty.post("/orders", order(product), "k");
  const row = await ledgerRow(account.id, "k");
  const retry = await healthy.post("/orders", order(product), "k");

  expect(shed.json).toMatchObject({ status: 503, error: "service_unavailable", retryable: true });
  expect(row).toMatchObject({ status: "released" });
  expect(retry.status).toBe(201);
  await expectOneOrder(account, product);
});
