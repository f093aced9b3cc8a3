import { afterEach, expect, test } from "vitest";

import { answerLost, faultyD1 } from "./faulty-d1.ts";
import {
  answering,
  brokenGuarantees,
  chargesOf,
  faultyProvider,
  pay,
  paymentsOf,
  placeOrder,
  reconcileNow,
  statusOf,
} from "./payments.ts";
import { ledgerRow, openShop, shelve, sql, TestClock } from "./shop.ts";
import { callsUnder, sandbox } from "./stripe-sandbox.ts";

// Whatever a test did, the books of both sides must agree afterwards.
afterEach(async () => expect(await brokenGuarantees()).toEqual([]));

test("an order is paid once, and the retry is answered byte for byte without asking the provider", async () => {
  const provider = faultyProvider();
  const shop = await openShop({ bindings: { SANDBOX: provider.SANDBOX } });
  const order = await placeOrder(shop);

  const paid = await pay(shop, order, "k");
  const callsForOne = provider.calls.length;
  const replay = await pay(shop, order, "k");

  const [payment] = await paymentsOf(order);
  expect(paid.status).toBe(201);
  expect(paid.json).toMatchObject({
    id: payment!.id,
    order_id: order,
    status: "succeeded",
    amount: 1000,
    refunded_amount: 0,
    currency: "EUR",
  });
  expect(paid.headers.get("location")).toBe(`/payments/${payment!.id}`);
  expect(replay.body).toBe(paid.body);
  expect([callsForOne, provider.calls.length]).toEqual([1, 1]);
  expect((await shop.get(paid.headers.get("location")!)).body).toBe(paid.body);
  expect((await shop.get(`/orders/${order}/payments`)).json).toEqual({
    data: [paid.json],
    has_more: false,
  });
  expect(await statusOf(order)).toBe("paid");
  expect(await chargesOf(order)).toHaveLength(1);
});

test("a payment takes three round trips and one provider call; its replay one and none", async () => {
  const d1 = faultyD1();
  const shop = await openShop({ bindings: { DB: d1.DB } });
  const order = await placeOrder(shop);
  d1.take();

  await pay(shop, order, "k");
  const trips = d1.take();
  await pay(shop, order, "k");

  expect(trips).toHaveLength(3);
  expect(d1.take()).toEqual([expect.objectContaining({ rowsWritten: 0 })]);
  const [payment] = await paymentsOf(order);
  expect(await callsUnder(payment!.id)).toHaveLength(1);
});

test("case 18: 50 keys that pay one order at once end in one payment and one charge", async () => {
  const shop = await openShop();
  const order = await placeOrder(shop);

  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) => pay(shop, order, `k${i}`)),
  );

  const refused = answers.filter(({ status }) => status === 409);
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
  expect(refused).toHaveLength(49);
  expect(refused.map(({ json }) => json["error"])).toEqual(
    refused.map(() => expect.stringMatching(/^(payment_in_progress|order_not_payable)$/)),
  );
  expect(await paymentsOf(order)).toHaveLength(1);
  expect(await chargesOf(order)).toHaveLength(1);
});

test("50 payments of one order under one key at once end in one charge and one body", async () => {
  const shop = await openShop();
  const order = await placeOrder(shop);

  const answers = await Promise.all(Array.from({ length: 50 }, () => pay(shop, order, "k")));

  const paid = answers.filter(({ status }) => status === 201);
  const waiting = answers.filter(({ status }) => status !== 201);
  expect(new Set(paid.map(({ body }) => body)).size).toBe(1);
  expect(waiting.map(({ json }) => json["error"])).toEqual(
    waiting.map(() => "idempotency_key_in_progress"),
  );
  expect(await chargesOf(order)).toHaveLength(1);
});

test("case 21: a declined card is a stored 402, and another card under a new key is a new payment", async () => {
  const shop = await openShop();
  const order = await placeOrder(shop);

  const declined = await pay(shop, order, "a", "pm_card_chargeDeclined");
  const replay = await pay(shop, order, "a", "pm_card_chargeDeclined");
  const paid = await pay(shop, order, "b");

  const payments = await paymentsOf(order);
  expect(declined.json).toMatchObject({
    status: 402,
    error: "card_declined",
    retryable: false,
    decline_code: "generic_decline",
    payment_id: payments[0]!.id,
  });
  expect(replay.body).toBe(declined.body);
  expect(paid.status).toBe(201);
  expect(payments.map(({ status }) => status)).toEqual(["failed", "succeeded"]);
  expect(await callsUnder(payments[0]!.id)).toHaveLength(1);
  expect(await callsUnder(payments[1]!.id)).toHaveLength(1);
});

test("a payment method that the provider does not know is declined by its code", async () => {
  const shop = await openShop();
  const order = await placeOrder(shop);

  const declined = await pay(shop, order, "a", "pm_none");

  expect(declined.json).toMatchObject({ status: 402, decline_code: "resource_missing" });
  expect(await statusOf(order)).toBe("pending");
});

test.each(["pm_sandbox_lost_reply", "pm_sandbox_unavailable_once"])(
  "case 22: %s ends in 503 outcome_unknown, and the retry asks under the same provider key at once",
  async (method) => {
    const shop = await openShop();
    const order = await placeOrder(shop);

    const unknown = await pay(shop, order, "k", method);
    const row = await ledgerRow(shop.account.id, "k");
    const between = await statusOf(order);
    const retry = await pay(shop, order, "k", method);

    const [payment] = await paymentsOf(order);
    expect(unknown.json).toMatchObject({ status: 503, error: "outcome_unknown", retryable: true });
    expect(row).toMatchObject({ status: "pending", updated_at: 0 });
    expect(between).toBe("pending");
    expect(retry.status).toBe(201);
    expect(payment!.id).toBe(`pay_${row!.operation_id}`);
    expect(await callsUnder(payment!.id)).toHaveLength(2);
    expect(await chargesOf(order)).toHaveLength(1);
  },
);

test("case 22: the provider's key and parameters are the same whatever the attempt", async () => {
  const shop = await openShop();
  const order = await placeOrder(shop);
  await pay(shop, order, "k", "pm_sandbox_lost_reply");
  await pay(shop, order, "k", "pm_sandbox_lost_reply");

  const [payment] = await paymentsOf(order);
  const calls = await callsUnder(payment!.id);

  expect(calls.map(({ params }) => params)).toEqual([calls[0]!.params, calls[0]!.params]);
  expect(calls.map(({ isReplayed }) => isReplayed)).toEqual([false, true]);
});

// The first call charged and its answer was lost; this is what the second one is answered.
test.each([
  ["400, an error of the API", { error: { type: "api_error" } }, 400],
  ["404, an address that is not there", { error: { type: "invalid_request_error" } }, 404],
  ["400, a lock", { error: { type: "invalid_request_error", code: "lock_timeout" } }, 400],
  ["402, from a proxy", { error: { type: "api_error" } }, 402],
  ["401", { error: { type: "invalid_request_error" } }, 401],
  ["409", { error: { type: "idempotency_error" } }, 409],
  ["429", { error: { type: "rate_limit_error" } }, 429],
  ["502, a success of nothing", { status: "succeeded" }, 502],
  ["502, a failure of nothing", { status: "failed" }, 502],
  [
    "200, about another intent",
    { id: "pi_x", object: "payment_intent", status: "succeeded", metadata: {} },
    200,
  ],
])("an answer that says nothing of this payment settles nothing: %s", async (_, body, status) => {
  const provider = faultyProvider();
  const shop = await openShop({ bindings: { SANDBOX: provider.SANDBOX } });
  const order = await placeOrder(shop);

  provider.next(answerLost, answering(body, status));
  const answers = [await pay(shop, order, "k"), await pay(shop, order, "k")];
  const between = await paymentsOf(order);
  const settled = await pay(shop, order, "k");

  expect(answers.map(({ json }) => json["error"])).toEqual(["outcome_unknown", "outcome_unknown"]);
  expect(between).toEqual([expect.objectContaining({ status: "processing" })]);
  expect(settled.status).toBe(201);
  expect(await chargesOf(order)).toHaveLength(1);
});

test("a card error without a decline code is declined by its code", async () => {
  const provider = faultyProvider();
  const shop = await openShop({ bindings: { SANDBOX: provider.SANDBOX } });
  const order = await placeOrder(shop);

  provider.next(answering({ error: { type: "card_error", code: "incorrect_cvc" } }, 402));
  const declined = await pay(shop, order, "k");

  expect(declined.json).toMatchObject({ status: 402, decline_code: "incorrect_cvc" });
});

test("a key that the provider may have forgotten is not sent again", async () => {
  const clock = new TestClock();
  const provider = faultyProvider();
  const bindings = { SANDBOX: provider.SANDBOX, RETENTION_MS: "604800000" };
  const shop = await openShop({ bindings, ports: clock });
  const order = await placeOrder(shop);
  provider.next(answerLost);
  await pay(shop, order, "k");
  const asked = provider.calls.length;

  clock.advance(23 * 60 * 60 * 1000 + 1);
  const late = await pay(shop, order, "k");
  const report = await reconcileNow({ now: () => clock.now() + 120_000 });

  const [payment] = await paymentsOf(order);
  expect(late.json).toMatchObject({ status: 503, error: "outcome_unknown" });
  expect(report.unsettled).toContain(payment!.id);
  expect([asked, provider.calls.length]).toEqual([1, 1]);
  expect(await chargesOf(order)).toHaveLength(1);
});

test("a provider that answers too late is an unknown outcome, and its charge is found again", async () => {
  const shop = await openShop({ bindings: { PROVIDER_TIMEOUT_MS: "50" } });
  const order = await placeOrder(shop);

  const unknown = await pay(shop, order, "k", "pm_sandbox_slow_200");
  await expect.poll(() => chargesOf(order)).toHaveLength(1);
  const retry = await pay(shop, order, "k", "pm_sandbox_slow_200");

  expect(unknown.json).toMatchObject({ status: 503, error: "outcome_unknown" });
  expect(retry.status).toBe(201);
  expect(await chargesOf(order)).toHaveLength(1);
});

test("an order that is paid, cancelled or costs nothing cannot be paid", async () => {
  const shop = await openShop();
  const [paid, cancelled] = [await placeOrder(shop), await placeOrder(shop)];
  const free = await shelve(shop.account.id, { price: 0 });
  const gift = await shop.post("/orders", { items: [{ product_id: free, quantity: 1 }] }, "gift");
  await pay(shop, paid, "first");
  await shop.post(`/orders/${cancelled}/cancel`, undefined, "cancel");

  const answers = [
    await pay(shop, paid, "second"),
    await pay(shop, cancelled, "third"),
    await pay(shop, String(gift.json["id"]), "fourth"),
    await pay(shop, "ord_none", "fifth"),
  ];

  expect(answers.map(({ json }) => [json["error"], json["order_status"]])).toEqual([
    ["order_not_payable", "paid"],
    ["order_not_payable", "cancelled"],
    ["order_not_payable", "pending"],
    ["not_found", undefined],
  ]);
});

test("an order that somebody is paying for, or has paid, cannot be cancelled", async () => {
  const shop = await openShop();
  const [processing, paid] = [await placeOrder(shop), await placeOrder(shop)];
  await pay(shop, processing, "a", "pm_sandbox_lost_reply");
  await pay(shop, paid, "b");

  const answers = [
    await shop.post(`/orders/${processing}/cancel`, undefined, "c"),
    await shop.post(`/orders/${paid}/cancel`, undefined, "d"),
  ];
  await pay(shop, processing, "a", "pm_sandbox_lost_reply");

  expect(answers.map(({ json }) => json["error"])).toEqual(Array(2).fill("order_not_cancellable"));
  expect(await statusOf(processing)).toBe("paid");
});

const refund = (
  shop: Awaited<ReturnType<typeof openShop>>,
  payment: string,
  key: string,
  amount?: number,
) => shop.post(`/payments/${payment}/refunds`, amount === undefined ? {} : { amount }, key);

test("refunds may be partial and repeated, up to what was paid", async () => {
  const shop = await openShop();
  const order = await placeOrder(shop);
  const payment = String((await pay(shop, order, "pay")).json["id"]);

  const first = await refund(shop, payment, "a", 300);
  const replay = await refund(shop, payment, "a", 300);
  const between = await statusOf(order);
  const tooMuch = await refund(shop, payment, "b", 701);
  const rest = await refund(shop, payment, "c");
  const nothingLeft = await refund(shop, payment, "d");

  expect(first.json).toMatchObject({ payment_id: payment, status: "succeeded", amount: 300 });
  expect(replay.body).toBe(first.body);
  expect(between).toBe("partially_refunded");
  expect(tooMuch.json).toMatchObject({
    status: 422,
    error: "refund_exceeds_payment",
    refundable_amount: 700,
  });
  expect(rest.json).toMatchObject({ amount: 700 });
  expect(nothingLeft.json).toMatchObject({ error: "refund_exceeds_payment", refundable_amount: 0 });
  expect(await statusOf(order)).toBe("refunded");
  expect((await shop.get(`/payments/${payment}`)).json).toMatchObject({ refunded_amount: 1000 });
});

test("case 20: two refunds of 60 % at once: one succeeds", async () => {
  const shop = await openShop();
  const order = await placeOrder(shop);
  const payment = String((await pay(shop, order, "pay")).json["id"]);

  const both = await Promise.all([
    refund(shop, payment, "a", 600),
    refund(shop, payment, "b", 600),
  ]);

  expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 422]);
  expect((await paymentsOf(order))[0]).toMatchObject({ refunded_amount: 600 });
});

test("a refund that the provider refuses gives its reservation back", async () => {
  const shop = await openShop();
  const order = await placeOrder(shop);
  const payment = String((await pay(shop, order, "p", "pm_sandbox_refund_refused")).json["id"]);

  const refused = await refund(shop, payment, "a", 300);
  const replay = await refund(shop, payment, "a", 300);

  expect(refused.json).toMatchObject({ status: 409, error: "payment_not_refundable" });
  expect(refused.json["failure_code"]).toBeTypeOf("string");
  expect(replay.body).toBe(refused.body);
  expect((await paymentsOf(order))[0]).toMatchObject({ refunded_amount: 0 });
  expect(await statusOf(order)).toBe("paid");
});

test.each(["pm_sandbox_refund_lost_reply", "pm_sandbox_refund_unavailable_once"])(
  "a refund with %s keeps its reservation, and the retry gives the money back once",
  async (method) => {
    const shop = await openShop();
    const order = await placeOrder(shop);
    const payment = String((await pay(shop, order, "pay", method)).json["id"]);

    const unknown = await refund(shop, payment, "a", 600);
    const meanwhile = await refund(shop, payment, "b", 600);
    const retry = await refund(shop, payment, "a", 600);

    expect(unknown.json).toMatchObject({ status: 503, error: "outcome_unknown" });
    expect(meanwhile.json).toMatchObject({ error: "refund_exceeds_payment" });
    expect(retry.json).toMatchObject({ status: "succeeded", amount: 600 });
    const given = await sandbox.refunds({ limit: 1_000 });
    expect(given.filter(({ paymentId }) => paymentId === payment)).toHaveLength(1);
  },
);

test("a payment that failed or is not there cannot be refunded", async () => {
  const shop = await openShop();
  const order = await placeOrder(shop);
  await pay(shop, order, "a", "pm_card_chargeDeclined");
  const [failed] = await paymentsOf(order);

  const answers = [await refund(shop, failed!.id, "b", 1), await refund(shop, "pay_none", "c", 1)];

  expect(answers.map(({ json }) => json["error"])).toEqual(["payment_not_refundable", "not_found"]);
});

test("another account can neither see, pay nor refund", async () => {
  const [owner, stranger] = [await openShop(), await openShop()];
  const order = await placeOrder(owner);
  const theirs = await pay(stranger, order, "a");
  const payment = String((await pay(owner, order, "a")).json["id"]);

  const answers = [
    theirs,
    await stranger.get(`/payments/${payment}`),
    await stranger.get(`/orders/${order}/payments`),
    await refund(stranger, payment, "b", 1),
  ];

  expect(answers.map(({ json }) => json["error"])).toEqual(Array(4).fill("not_found"));
});

test("the database refuses what no code asks for", async () => {
  const shop = await openShop();
  const order = await placeOrder(shop);
  await pay(shop, order, "k");
  const [payment] = await paymentsOf(order);
  const change = (statement: D1PreparedStatement) => expect(statement.run()).rejects;

  await change(sql`UPDATE payments SET status = 'failed' WHERE id = ${payment!.id}`).toThrow(
    "payments_transition_forbidden",
  );
  await change(sql`UPDATE payments SET refunded_amount = 1001 WHERE id = ${payment!.id}`).toThrow(
    "payments_refunded_at_most_amount",
  );
  await change(sql`INSERT INTO payments SELECT 'pay_second', account_id, order_id, 'processing', amount, currency, 0,
    payment_method, 'k2', NULL, NULL, 0, 0 FROM payments WHERE id = ${payment!.id}`).toThrow(
    "payments_order_not_pending",
  );
});
