import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { integer, sqliteTable } from "drizzle-orm/sqlite-core";
import { expect, test } from "vitest";

import { sweepUntilCaughtUp } from "../../src/idempotency/sweep.ts";
import { ok } from "../../src/wire.ts";
import { answerLost, callLost, faultyD1, gate, overloaded, passes } from "./faulty-d1.ts";
import { ledgerRow, ledgerSize, openShop, ordersOf, shelve, TestClock } from "./shop.ts";
import { mounting, PATH } from "./test-mutation.ts";

// Goal: faults that come in twos (a takeover and an eviction, a lost claim and a wrong clock) end well, too.

const PENDING_TTL_MS = 30_000;
const RETENTION_MS = 86_400_000;
const order = (product: string, quantity = 1) => ({ items: [{ product_id: product, quantity }] });

async function twoDoors() {
  const clock = new TestClock();
  const d1 = faultyD1();
  const faulty = await openShop({ bindings: { DB: d1.DB }, ports: clock });
  const healthy = await openShop({ account: faulty.account, ports: clock });
  const product = await shelve(faulty.account.id);
  return { clock, d1, faulty, healthy, account: faulty.account, product };
}

test("a takeover that fails leaves open what the attempt before it may have done", async () => {
  const first = await openShop({
    mount: mounting(async ({ checkpoint }) => {
      const held = await checkpoint([]);
      // The outside system was called, and its reply lost.
      return held.kind === "held" ? { kind: "outcome_unknown" } : held;
    }),
  });
  const second = await openShop({
    account: first.account,
    mount: mounting(() => {
      throw new Error("before it came to its checkpoint");
    }),
  });

  await first.post(PATH, {}, "k");
  const answer = await second.post(PATH, {}, "k");

  expect(answer.json).toMatchObject({ status: 503, error: "outcome_unknown" });
  expect(await ledgerRow(first.account.id, "k")).toMatchObject({
    status: "pending",
    updated_at: 0,
  });
});

test("a late owner whose key was evicted and used for another request is not shown that one's answer", async () => {
  const { clock, d1, faulty, healthy, product } = await twoDoors();
  const commit = gate();

  d1.next(passes, commit.fault);
  const late = faulty.post("/orders", order(product, 1), "k");
  await commit.reached;
  clock.advance(RETENTION_MS + 1);
  await sweepUntilCaughtUp(drizzle(env.DB), {
    now: clock.now,
    pendingTtlMs: PENDING_TTL_MS,
    evictionLagAlertMs: 3_600_000,
  });
  const other = await healthy.post("/orders", order(product, 7), "k");
  commit.open();

  expect(other.status).toBe(201);
  expect((await late).json).toMatchObject({ status: 422, error: "idempotency_key_reused" });
});

test("a claim whose answer is lost for good does not hold its key for a TTL", async () => {
  const { d1, faulty, healthy, account, product } = await twoDoors();

  d1.next(answerLost, callLost, callLost);
  const unavailable = await faulty.post("/orders", order(product), "k");
  const retry = await healthy.post("/orders", order(product), "k");

  expect(unavailable.json).toMatchObject({ status: 503, error: "service_unavailable" });
  expect(retry.status).toBe(201);
  expect(await ordersOf(account.id)).toHaveLength(1);
});

test("a lease from a clock that was far ahead is no lease", async () => {
  const { clock, d1, faulty, healthy, account, product } = await twoDoors();
  const commit = gate();

  clock.advance(3_600_000);
  d1.next(passes, commit.fault);
  const ahead = faulty.post("/orders", order(product), "k");
  await commit.reached;
  clock.advance(-3_600_000);
  const corrected = await healthy.post("/orders", order(product), "k");
  commit.open();

  expect(corrected.status).toBe(201);
  expect((await ahead).body).toBe(corrected.body);
  expect(await ordersOf(account.id)).toHaveLength(1);
});

test("a fenced-out owner waits for its successor, if it was asked to wait", async () => {
  const { clock, d1, faulty, account, product } = await twoDoors();
  const d1OfSuccessor = faultyD1();
  const successor = await openShop({ account, bindings: { DB: d1OfSuccessor.DB }, ports: clock });
  const [first, second] = [gate(), gate()];

  d1.next(passes, first.fault);
  d1OfSuccessor.next(passes, second.fault);
  const late = faulty.post("/orders", order(product), "k", { prefer: "wait=10" });
  await first.reached;
  clock.advance(PENDING_TTL_MS);
  const canonical = successor.post("/orders", order(product), "k");
  await second.reached;
  // The fence, the look at the row, and then, while it waits, the successor's commit.
  d1.next(passes, passes, async (send) => {
    second.open();
    await canonical;
    return send();
  });
  clock.advance(-PENDING_TTL_MS);
  first.open();

  expect((await late).status).toBe(201);
  expect((await late).body).toBe((await canonical).body);
});

test("a statement that SQLite cannot carry out is a bug and released, not an unknown outcome", async () => {
  const nowhere = sqliteTable("nowhere", { a: integer("a") });
  const { account, post } = await openShop({
    mount: mounting(({ db }) => ({
      kind: "decided",
      response: ok({}),
      writes: [db.insert(nowhere).values({ a: 1 })],
    })),
  });

  const answer = await post(PATH, {}, "k");

  expect(answer.json).toMatchObject({ status: 500, error: "internal_error" });
  expect(await ledgerRow(account.id, "k")).toMatchObject({ status: "released" });
});

test("an overloaded database is a 503 with Retry-After on every route", async () => {
  const { d1, faulty } = await twoDoors();
  const paths = ["/orders", "/orders/ord_1", "/products/prod_1", "/idempotency-keys/k"];

  const answers = [];
  for (const path of paths) {
    d1.next(overloaded);
    answers.push(await faulty.get(path));
  }

  expect(answers.map(({ status, headers }) => [status, headers.get("retry-after")])).toEqual(
    paths.map(() => [503, "1"]),
  );
});

test("a rate limiter that is out of order limits nobody", async () => {
  const RATE_LIMITER = { limit: () => Promise.reject(new Error("down")) } as unknown as RateLimit;
  const { account } = await openShop();
  const { get } = await openShop({ account, bindings: { RATE_LIMITER } });

  expect((await get("/orders")).status).toBe(200);
});

test("an upload that breaks off is the caller's fault, and claims nothing", async () => {
  const { account, post } = await openShop();
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.error(new Error("the caller went away")),
  });

  const answer = await post("/orders", body, "k");

  expect(answer.json).toMatchObject({ status: 400, error: "invalid_request" });
  expect(await ledgerSize(account.id)).toBe(0);
});

test("an address that cannot be an id is 404 before anything is stored", async () => {
  const { account, post } = await openShop();

  const answers = [
    await post(`/orders/${"x".repeat(15_000)}/cancel`, undefined, "a"),
    await post("/orders/ord_%00/cancel", undefined, "b"),
    await post("/products/nothing/stock-adjustments", { delta: 1 }, "c"),
  ];

  expect(answers.map(({ status }) => status)).toEqual([404, 404, 404]);
  expect(await ledgerSize(account.id)).toBe(0);
});
