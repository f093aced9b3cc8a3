import { expect, test } from "vitest";

import { PROBLEMS, type ProblemCode } from "../../src/problems.ts";
import { documentOf } from "./contract.ts";
import { faultyD1, gate, overloaded } from "./faulty-d1.ts";
import { mounting, PATH } from "./test-mutation.ts";
import { deliver, pay, placeOrder, SECRETS } from "./payments.ts";
import { type Answer, type Json, openShop, shelve } from "./shop.ts";

// Goal: the examples in the OpenAPI document are answers that the service gives, and there is one for whatever it answers.

const ADMIN_TOKEN = "operator-token-of-the-test";

interface Documented {
  headers?: Record<string, unknown>;
  content: Record<string, { examples?: Record<string, { value: Json }> }>;
}
type Paths = Record<string, Record<string, { responses: Record<string, Documented> }>>;

async function documented(): Promise<{ paths: Paths; examples: Json[] }> {
  const { get } = await openShop();
  const { paths } = (await get("/openapi.json")).json as { paths: Paths };
  const responses = Object.values(paths)
    .flatMap((methods) => Object.values(methods))
    .flatMap((operation) => Object.values(operation.responses));
  const examples = responses.flatMap(({ content }) =>
    Object.entries(content["application/problem+json"]?.examples ?? {}),
  );
  return {
    paths,
    examples: [...new Map(examples.map(([name, { value }]) => [name, value])).values()],
  };
}

/** What is the same in every occurrence, and which members there are. */
function shapeOf(problem: Json) {
  const { type, title, status, error, retryable } = problem;
  return { type, title, status, error, retryable, members: Object.keys(problem).toSorted() };
}

test("every example of a problem is an answer that the service gives", async () => {
  const { examples } = await documented();
  const d1 = faultyD1();
  const shop = await openShop({
    bindings: { DB: d1.DB },
    mount: mounting(() => {
      throw new Error("broken");
    }),
  });
  const limited = { RATE_LIMITER: { limit: async () => ({ success: false }) } };
  const { account, post, get } = shop;
  const product = await shelve(account.id, { units: 1, price: 1000 });
  const dear = await shelve(account.id, { price: 999_999_999_999, units: 1_000_000 });
  const inDollars = await shelve(account.id, { currency: "USD" });
  const line = (product_id: string, quantity = 1) => ({ product_id, quantity });
  const order = (...items: object[]) => ({ items });
  const send = (path: string, body: unknown, more?: HeadersInit) =>
    post(path, body, crypto.randomUUID(), more);

  const paid = await placeOrder(shop);
  const { json: payment } = await pay(shop, paid, "pays");
  const declined = await placeOrder(shop);
  const refund = (amount: number) => send(`/payments/${String(payment["id"])}/refunds`, { amount });
  const thing = { sku: "SKU", name: "Thing", unit_price: 1, currency: "EUR", stock: 1 };
  await send("/products", thing);
  await post("/orders", order(line(inDollars)), "used");

  const failed = await pay(shop, await placeOrder(shop), "fails", "pm_card_chargeDeclined");
  const stubborn = await pay(shop, await placeOrder(shop), "stubborn", "pm_sandbox_refund_refused");

  const answers: Answer[] = [
    await send(`/payments/${String(failed.json["payment_id"])}/refunds`, {}),
    await send(`/payments/${String(stubborn.json["id"])}/refunds`, {}),
    await send("/orders", order(line(product, 0))),
    await post("/orders", order(line(product)), null),
    await post("/orders", order(line(product)), "a,b"),
    await shop.send(new Request("http://shop.test/orders")),
    await pay(shop, declined, "declined", "pm_card_chargeDeclined"),
    await get("/orders/ord_none"),
    await send("/orders", order(line(product, 2))),
    await send("/products", thing),
    await send(`/orders/${paid}/cancel`, undefined),
    await pay(shop, paid, "pays again"),
    await send("/orders", "x".repeat(70_000)),
    await send("/orders", order(line(product)), { "content-type": "text/plain" }),
    await post("/orders", order(line(product)), "used"),
    await send("/orders", order(line("prod_none"))),
    await send("/orders", order(line(product), line(inDollars))),
    await send("/orders", order(line(dear, 1_000_000))),
    await refund(2_000_000),
    await (await openShop({ account, bindings: limited })).get("/orders"),
    await send(PATH, {}),
    await pay(shop, declined, "lost", "pm_sandbox_lost_reply"),
    await stillExecuting(),
    await otherPaymentInProgress(),
    await shed(),
  ];

  async function stillExecuting(): Promise<Answer> {
    const { fault, reached, open } = gate();
    d1.next((carryOut) => carryOut(), fault);
    const first = post("/orders", order(line(inDollars)), "slow");
    await reached;
    const second = await post("/orders", order(line(inDollars)), "slow");
    open();
    await first;
    return second;
  }

  function otherPaymentInProgress(): Promise<Answer> {
    return pay(shop, declined, "another", "pm_card_visa");
  }

  async function shed(): Promise<Answer> {
    d1.next(overloaded);
    return send("/orders", order(line(inDollars)));
  }

  const shapesOf = (problems: Json[]) =>
    new Map(
      problems.map((problem) => [JSON.stringify(shapeOf(problem)), String(problem["error"])]),
    );
  const seen = shapesOf(answers.map(({ json }) => json));
  const shown = shapesOf(examples);
  // Each needs a scene of its own, and is shown by the tests of it.
  const elsewhere = [
    "idempotency_key_retry",
    "idempotent_response_too_large",
    "webhook_signature_invalid",
  ];
  const unseen = [...shown].filter(([shape]) => !seen.has(shape)).map(([, code]) => code);
  expect([...seen.keys()].filter((shape) => !shown.has(shape))).toEqual([]);
  expect(unseen.toSorted()).toEqual(elsewhere.toSorted());
  // What no route declares is about an address, not about a route.
  const codes = Object.keys(PROBLEMS) as ProblemCode[];
  const documentedCodes = new Set(shown.values());
  expect(codes.filter((code) => !documentedCodes.has(code))).toEqual(["method_not_allowed"]);
});

test("every example of a success is what the service answers to the example of its request", async () => {
  const shop = await openShop();
  const { get, post } = shop;
  const { components } = (await get("/openapi.json")).json as {
    components: { schemas: Record<string, { example?: Json }> };
  };
  const example = (name: string) => components.schemas[name]!.example!;
  const key = String(example("IdempotencyKey")["key"]);

  const product = await post("/products", example("CreateProductRequest"), "product");
  const productId = String(product.json["id"]);
  const ask = JSON.stringify(example("CreateOrderRequest")).replace(/prod_[-\w]+/, productId);
  const order = await post("/orders", ask, key);
  const payments = `/orders/${String(order.json["id"])}/payments`;
  const payment = await post(payments, example("PayOrderRequest"), "payment");
  const refunds = `/payments/${String(payment.json["id"])}/refunds`;
  const adjustments = `/products/${productId}/stock-adjustments`;
  const answers = {
    Product: product,
    Order: order,
    IdempotencyKey: await get(`/idempotency-keys/${key}`),
    Payment: payment,
    Refund: await post(refunds, example("RefundRequest"), "refund"),
    StockAdjustment: await post(adjustments, example("AdjustStockRequest"), "adjustment"),
  };

  for (const [name, { json }] of Object.entries(answers)) {
    expect(withoutChance(json), name).toEqual(withoutChance(example(name)));
  }
});

test("the examples of the operator's and the provider's routes are what the service answers", async () => {
  const shop = await openShop({ bindings: { ...SECRETS, ADMIN_TOKEN } });
  const { schemas } = documentOf(shop.app).components;
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const ask = (path: string) => shop.send(new Request(`http://shop.test${path}`, { headers }));
  const product = await shelve(shop.account.id);
  await shop.post("/orders", { items: [{ product_id: product, quantity: 1 }] }, "k");

  const taken = await deliver(shop, schemas["StripeEvent"]!.example!);
  const ledger = await ask("/admin/ledger");
  const audit = await ask("/admin/audit");

  const checks = audit.json["checks"] as Json[];
  expect([taken.status, taken.json]).toEqual([200, { received: true }]);
  expect(membersOf(ledger.json)).toEqual(membersOf(schemas["LedgerFigures"]!.example!));
  expect({ ...audit.json, checks: checks.slice(0, 1) }).toEqual(schemas["Audit"]!.example);
});

/** The names of all members, however deep, in order. */
function membersOf(json: Json): string[] {
  const names: string[] = [];
  JSON.stringify(json, (name, value: unknown) => {
    names.push(name);
    return value;
  });
  return names.toSorted();
}

/** As it is, but for ids and times. */
function withoutChance(json: Json): Json {
  return JSON.parse(
    JSON.stringify(json)
      .replaceAll(/([a-z]+)_[0-9a-f]{8}-[-0-9a-f]{27}/g, "$1_…")
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "…"),
  );
}

test("every operation has a name of its own and says which headers come back", async () => {
  const { paths } = await documented();
  const operations = Object.values(paths).flatMap((methods) =>
    Object.values(methods),
  ) as (Paths[string][string] & { operationId: string })[];
  const names = operations.map(({ operationId }) => operationId);
  expect(new Set(names).size).toBe(names.length);
  const silent = operations.flatMap(({ operationId, responses }) =>
    Object.entries(responses)
      .filter(([, { headers = {} }]) => !("x-request-id" in headers))
      .map(([status]) => `${operationId} ${status}`),
  );
  expect(silent).toEqual([]);
  expect(Object.keys(paths["/orders"]!["post"]!.responses["201"]!.headers!)).toEqual([
    "x-request-id",
    "idempotent-replayed",
    "preference-applied",
    "server-timing",
    "location",
  ]);
});
