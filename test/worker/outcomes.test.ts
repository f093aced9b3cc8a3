import { eq, sql as sqlOf } from "drizzle-orm";
import { expect, test } from "vitest";

import { products, stockAdjustments } from "../../src/catalog/schema.ts";
import type { RunContext } from "../../src/idempotency/mutation.ts";
import { ok } from "../../src/wire.ts";
import {
  answerLost,
  callLost,
  delayed,
  type Fault,
  faultyD1,
  gate,
  overloaded,
  passes,
} from "./faulty-d1.ts";
import {
  ledgerRow,
  ledgerSize,
  openShop,
  ordersOf,
  postRequest,
  shelve,
  sql,
  TestClock,
} from "./shop.ts";
import { mounting, PATH, succeed } from "./test-mutation.ts";

const PENDING_TTL_MS = 30_000;

/** An intent written down before something outside is asked: one row whose id derives from the operation. */
function intent(
  { db, operation }: Pick<RunContext<never, []>, "db" | "operation">,
  productId: string,
) {
  const row = { id: `adj_${operation.id}`, productId, delta: 0, createdAt: 0 };
  return db.insert(stockAdjustments).values(row);
}

async function intentsOf(productId: string): Promise<number> {
  const count = sql`SELECT count(*) AS n FROM stock_adjustments WHERE product_id = ${productId} AND delta = 0`;
  return (await count.first<number>("n"))!;
}

test("a mutation that throws is released with its generation, and the next try runs at once", async () => {
  let isBroken = true;
  const { account, post } = await openShop({
    mount: mounting((context) => {
      if (isBroken) throw new Error("a bug that names nobody");
      return succeed(context);
    }),
  });

  const failed = await post(PATH, {}, "k");
  const row = await ledgerRow(account.id, "k");
  isBroken = false;
  const retry = await post(PATH, {}, "k");

  expect(failed.json).toMatchObject({ status: 500, error: "internal_error", retryable: true });
  expect(failed.body).not.toContain("a bug");
  expect(row).toMatchObject({ status: "released", generation: 1, response_status: null });
  expect(retry.status).toBe(200);
  expect(retry.headers.get("idempotent-replayed")).toBe("false");
  expect(await ledgerRow(account.id, "k")).toMatchObject({
    status: "completed",
    generation: 2,
    operation_id: row!.operation_id,
  });
});

test("an unknown outcome keeps the row pending, gives up the lease, and the next try continues the operation", async () => {
  const seen: string[] = [];
  const { account, post } = await openShop({
    mount: mounting(({ operation }) => {
      seen.push(operation.id);
      return seen.length === 1
        ? { kind: "outcome_unknown" }
        : { kind: "decided", response: ok({ operation: operation.id }), writes: [] };
    }),
  });

  const unknown = await post(PATH, {}, "k");
  const row = await ledgerRow(account.id, "k");
  const retry = await post(PATH, {}, "k");

  expect(unknown.json).toMatchObject({ status: 503, error: "outcome_unknown", retryable: true });
  expect(unknown.headers.get("retry-after")).toBe("1");
  expect(row).toMatchObject({ status: "pending", updated_at: 0, generation: 1 });
  expect(retry.json).toEqual({ operation: row!.operation_id });
  expect(seen).toEqual([row!.operation_id, row!.operation_id]);
});

test("a mutation that throws after a checkpoint keeps its claim pending: something may have happened", async () => {
  const { account, post } = await openShop({
    mount: mounting(async ({ checkpoint }) => {
      await checkpoint([]);
      throw new Error("the outside system hung up");
    }),
  });

  const answer = await post(PATH, {}, "k");

  expect(answer.json).toMatchObject({ status: 503, error: "outcome_unknown" });
  expect(await ledgerRow(account.id, "k")).toMatchObject({ status: "pending", updated_at: 0 });
});

test("a checkpoint commits its writes, keeps the claim and renews the lease", async () => {
  const clock = new TestClock();
  const outside = gate();
  const { account, post } = await openShop({
    ports: clock,
    mount: mounting(async (context) => {
      clock.advance(20_000);
      await context.checkpoint([intent(context, product)]);
      await outside.fault(async () => undefined);
      return succeed(context);
    }),
  });
  const product = await shelve(account.id);

  const answer = post(PATH, {}, "k");
  await outside.reached;
  const intents = await intentsOf(product);
  clock.advance(20_000);
  const duplicate = await post(PATH, {}, "k");
  outside.open();

  expect(intents).toBe(1);
  expect(duplicate.json).toMatchObject({
    error: "idempotency_key_in_progress",
    takeover_after_ms: 10_000,
  });
  expect((await answer).status).toBe(200);
});

test("a fenced-out owner cannot checkpoint, and learns it before it calls outside", async () => {
  const clock = new TestClock();
  const outsideCalls: string[] = [];
  const pause = gate();
  const slow = await openShop({
    ports: clock,
    mount: mounting(async (context) => {
      await pause.fault(async () => undefined);
      const held = await context.checkpoint([intent(context, product)]);
      if (held.kind !== "held") return held;
      outsideCalls.push("slow");
      return succeed(context);
    }),
  });
  const { account } = slow;
  const product = await shelve(account.id);
  const healthy = await openShop({ account, ports: clock, mount: mounting(succeed) });

  const late = slow.post(PATH, {}, "k");
  await pause.reached;
  clock.advance(PENDING_TTL_MS + 1);
  const canonical = await healthy.post(PATH, {}, "k");
  pause.open();

  expect((await late).body).toBe(canonical.body);
  expect((await late).headers.get("idempotent-replayed")).toBe("true");
  expect(outsideCalls).toEqual([]);
  expect(await intentsOf(product)).toBe(0);
});

test("a checkpoint whose answer was lost is recognised, and its writes stand once", async () => {
  const d1 = faultyD1();
  const { account, post } = await openShop({
    bindings: { DB: d1.DB },
    mount: mounting(
      async (context) => {
        // As a payment does: what an earlier attempt wrote down is continued, not written again.
        const [found] = context.reads as [unknown[]];
        if (found.length === 0) {
          const held = await context.checkpoint([intent(context, product)]);
          if (held.kind !== "held") return held;
        }
        return succeed(context);
      },
      ({ db }) => [
        db
          .select({ id: stockAdjustments.id })
          .from(stockAdjustments)
          .where(
            sqlOf`${stockAdjustments.productId} = ${product} AND ${stockAdjustments.delta} = 0`,
          ),
      ],
    ),
  });
  const product = await shelve(account.id);

  d1.next(passes, answerLost);
  const answer = await post(PATH, {}, "k");

  expect(answer.status).toBe(200);
  expect(await intentsOf(product)).toBe(1);
  expect(await ledgerRow(account.id, "k")).toMatchObject({ status: "completed", generation: 1 });
});

test("a checkpoint that never gets through ends in 503 without an outside call", async () => {
  const d1 = faultyD1();
  const outsideCalls: string[] = [];
  const { account, post } = await openShop({
    bindings: { DB: d1.DB },
    mount: mounting(async (context) => {
      const held = await context.checkpoint([]);
      if (held.kind !== "held") return held;
      outsideCalls.push(context.operation.id);
      return succeed(context);
    }),
  });

  d1.next(passes, callLost, callLost, callLost);
  const answer = await post(PATH, {}, "k");

  expect(answer.json).toMatchObject({ status: 503, error: "outcome_unknown" });
  expect(outsideCalls).toEqual([]);
  expect(await ledgerRow(account.id, "k")).toMatchObject({ status: "pending", updated_at: 0 });
});

test("a response over the limit commits no effect and fails as loudly on replay", async () => {
  const { account, post } = await openShop({
    mount: mounting((context) => ({
      kind: "decided",
      // Two bytes a character: it is bytes that count.
      response: ok("é".repeat(8_192)),
      writes: [intent(context, product)],
    })),
  });
  const product = await shelve(account.id);

  const first = await post(PATH, {}, "k");
  const replay = await post(PATH, {}, "k");

  expect(first.json).toMatchObject({
    status: 500,
    error: "idempotent_response_too_large",
    retryable: false,
  });
  expect([replay.status, replay.body]).toEqual([500, first.body]);
  expect(replay.headers.get("idempotent-replayed")).toBe("true");
  expect(await intentsOf(product)).toBe(0);
  expect(await ledgerRow(account.id, "k")).toMatchObject({
    status: "completed",
    response_status: 500,
  });
});

test("a response of exactly the limit is stored and replayed", async () => {
  const { post } = await openShop({
    mount: mounting(() => ({ kind: "decided", response: ok("x".repeat(16_382)), writes: [] })),
  });

  const first = await post(PATH, {}, "k");
  const replay = await post(PATH, {}, "k");

  expect(first.body).toHaveLength(16_384);
  expect([replay.status, replay.body]).toEqual([200, first.body]);
});

test.each([204, 205, 304])(
  "a stored %i is answered and replayed without a body",
  async (status) => {
    const { post } = await openShop({
      mount: mounting(() => ({
        kind: "decided",
        response: { status, headers: {}, body: null },
        writes: [],
      })),
    });

    const first = await post(PATH, {}, "k");
    const replay = await post(PATH, {}, "k");

    expect([first.status, first.body]).toEqual([status, ""]);
    expect([replay.status, replay.body]).toEqual([status, ""]);
    expect(replay.headers.get("idempotent-replayed")).toBe("true");
  },
);

test("a constraint that refuses the writes sends the mutation back to fresh reads", async () => {
  const stocks: number[] = [];
  const { account, post } = await openShop({
    mount: mounting(
      async ({ db, reads, operation }) => {
        const [[{ stock }]] = reads as [[{ stock: number }]];
        stocks.push(stock);
        // Somebody else empties the shelf between this decision and its commit.
        await sql`UPDATE products SET stock = 0 WHERE id = ${product}`.run();
        const take = db
          .update(products)
          .set({ stock: sqlOf`${products.stock} - ${stock}` })
          .where(eq(products.id, product));
        const response = ok({ taken: stock, generation: operation.generation });
        return { kind: "decided", response, writes: [take] };
      },
      ({ db }) => [
        db.select({ stock: products.stock }).from(products).where(eq(products.id, product)),
      ],
    ),
  });
  const product = await shelve(account.id, { units: 7 });

  const answer = await post(PATH, {}, "k");

  expect(stocks).toEqual([7, 0]);
  expect(answer.json).toEqual({ taken: 0, generation: 1 });
});

test("a constraint that goes on refusing is a bug: three runs, then released", async () => {
  let runs = 0;
  const { account, post } = await openShop({
    mount: mounting(({ db }) => {
      runs += 1;
      const overdraw = db.update(products).set({ stock: -1 }).where(eq(products.id, product));
      return { kind: "decided", response: ok({}), writes: [overdraw] };
    }),
  });
  const product = await shelve(account.id);

  const answer = await post(PATH, {}, "k");

  expect(runs).toBe(3);
  expect(answer.json).toMatchObject({ status: 500, error: "internal_error" });
  expect(await ledgerRow(account.id, "k")).toMatchObject({ status: "released" });
});

test("fresh reads whose answer is lost are asked for again; an overloaded database is not", async () => {
  const d1 = faultyD1();
  const shop = await openShop({ bindings: { DB: d1.DB } });
  const other = await openShop({ account: shop.account });
  const take = async (key: string, ...faults: Fault[]) => {
    const product = await shelve(shop.account.id, { units: 1 });
    const order = { items: [{ product_id: product, quantity: 1 }] };
    // Between the claim's reads and the commit, somebody else takes the last unit.
    const soldOut: Fault = async (send) => {
      await other.post("/orders", order, `${key}-other`);
      return send();
    };
    d1.next(passes, soldOut, ...faults);
    return shop.post("/orders", order, key);
  };

  const asked = await take("lost", answerLost, callLost);
  const shed = await take("shed", overloaded);

  expect(asked.json).toMatchObject({ status: 409, error: "insufficient_stock" });
  expect(shed.json).toMatchObject({ status: 503, error: "service_unavailable", retryable: true });
  expect(await ledgerRow(shop.account.id, "shed")).toMatchObject({ status: "released" });
});

test("case 23: reads that lost a column to another of its name are refused, not trusted", async () => {
  const { account, post } = await openShop({
    mount: mounting(succeed, ({ db }) => [
      db
        .select({
          product: products.id,
          adjustment: stockAdjustments.id,
          delta: stockAdjustments.delta,
        })
        .from(products)
        .innerJoin(stockAdjustments, eq(stockAdjustments.productId, products.id))
        .where(eq(products.id, product)),
    ]),
  });
  const product = await shelve(account.id);

  const answer = await post(PATH, {}, "k");

  expect(answer.json).toMatchObject({ status: 500, error: "internal_error" });
  expect(await ledgerRow(account.id, "k")).toMatchObject({ status: "released" });
});

test("the work goes on under waitUntil when its caller has hung up", async () => {
  const d1 = faultyD1();
  const { account, app, bindings } = await openShop({ bindings: { DB: d1.DB } });
  const product = await shelve(account.id);
  const commit = gate();
  const pending: Promise<unknown>[] = [];
  const context = { waitUntil: (work: Promise<unknown>) => void pending.push(work) };
  const request = postRequest(
    account,
    "/orders",
    { items: [{ product_id: product, quantity: 1 }] },
    "k",
  );

  d1.next(passes, commit.fault);
  void app.fetch(request, bindings, context as unknown as ExecutionContext);
  await commit.reached;
  const promised = pending.length;
  commit.open();
  await Promise.all(pending);

  expect(promised).toBe(1);
  expect(await ledgerRow(account.id, "k")).toMatchObject({ status: "completed" });
  expect(await ordersOf(account.id)).toHaveLength(1);
});

test("what is refused before the claim leaves no row", async () => {
  const { account, post, send } = await openShop();
  const anonymous = new Request(`http://shop.test/orders`, {
    method: "POST",
    headers: { "idempotency-key": "k", "content-type": "application/json" },
    body: "{}",
  });

  const refusals = [
    await send(anonymous),
    await post("/orders", {}, null),
    await post("/orders", {}, "a,b"),
    await post("/orders", {}, "k"),
    await post("/orders", "not json", "k"),
    await post("/orders", " ".repeat(65_537), "k"),
    await post("/orders", "a=b", "k", { "content-type": "text/plain" }),
    await post("/nowhere", {}, "k"),
  ];

  expect(refusals.map((refusal) => [refusal.status, refusal.json["error"]])).toEqual([
    [401, "unauthorized"],
    [400, "idempotency_key_required"],
    [400, "idempotency_key_invalid"],
    [400, "invalid_request"],
    [400, "invalid_request"],
    [413, "body_too_large"],
    [415, "unsupported_media_type"],
    [404, "not_found"],
  ]);
  expect(await ledgerSize(account.id)).toBe(0);
});

test("a rate limit is applied before the claim", async () => {
  const RATE_LIMITER = { limit: async () => ({ success: false }) } as unknown as RateLimit;
  const { account } = await openShop();
  const { post } = await openShop({ account, bindings: { RATE_LIMITER } });

  const limited = await post("/orders", { items: [] }, "k");

  expect(limited.json).toMatchObject({ status: 429, error: "rate_limited", retryable: true });
  expect(limited.headers.get("retry-after")).toBe("10");
  expect(await ledgerSize(account.id)).toBe(0);
});

test("a write that lands after its owner gave up and released is refused by the fence", async () => {
  const d1 = faultyD1();
  const { account, post } = await openShop({ bindings: { DB: d1.DB } });
  const product = await shelve(account.id);
  const late = delayed();

  d1.next(passes, late.fault, overloaded);
  const shed = await post("/orders", { items: [{ product_id: product, quantity: 1 }] }, "k");
  const landing = await late.land();

  expect(shed.json).toMatchObject({ status: 503, error: "service_unavailable" });
  expect(landing).toBe("refused");
  expect(await ordersOf(account.id)).toEqual([]);
});
