import { Stripe } from "stripe";
import { expect, test } from "vitest";

import type { ChargeWire, IntentWire, RefundWire } from "../../src/payments/sandbox/wire.ts";
import {
  callsUnder,
  chargesUnder,
  freshKey,
  isReplay,
  pay,
  raw,
  refusalOf,
  sandbox,
  stripe,
} from "./stripe-sandbox.ts";

const A_TIME = expect.toSatisfy(
  (seconds: number) => Number.isInteger(seconds) && Math.abs(Date.now() / 1000 - seconds) < 60,
);
/** The client adds what came with the answer. */
const bare = (answer: object) => JSON.parse(JSON.stringify(answer)) as Record<string, unknown>;

test("a good card is charged, and the intent has the shape that Stripe publishes", async () => {
  const key = freshKey();

  const intent = await pay({ key, metadata: { payment_id: "pay_shape" } });

  const charge = expect.stringMatching(/^ch_[0-9a-f]{32}$/) as string;
  const expected = {
    id: expect.stringMatching(/^pi_[0-9a-f]{32}$/) as string,
    object: "payment_intent",
    amount: 1250,
    amount_capturable: 0,
    amount_received: 1250,
    canceled_at: null,
    capture_method: "automatic",
    client_secret: expect.stringMatching(`^${intent.id}_secret_[0-9a-f]{32}$`) as string,
    confirmation_method: "automatic",
    created: A_TIME as number,
    currency: "eur",
    last_payment_error: null,
    latest_charge: charge,
    livemode: false,
    metadata: { payment_id: "pay_shape" },
    next_action: null,
    payment_method: "pm_card_visa",
    payment_method_types: ["card"],
    status: "succeeded",
  } satisfies IntentWire satisfies Partial<Stripe.PaymentIntent>;
  expect(bare(intent)).toEqual(expected);
  expect(intent.lastResponse).toMatchObject({ statusCode: 200, idempotencyKey: key });
  expect(intent.lastResponse.requestId).toMatch(/^req_[0-9a-f]{32}$/);
  expect(isReplay(intent)).toBe(false);
  expect(intent.lastResponse.apiVersion).toBe(Stripe.API_VERSION);
  expect(await sandbox.chargesOf("pay_shape")).toEqual([
    {
      seq: expect.any(Number),
      id: intent.latest_charge,
      paymentIntent: intent.id,
      paymentId: "pay_shape",
      amount: 1250,
      amountRefunded: 0,
      currency: "eur",
      status: "succeeded",
      paymentMethod: "pm_card_visa",
      failureCode: null,
      idempotencyKey: key,
      createdAt: expect.any(Number),
    },
  ]);
});

test("every field that is filled in is one of Stripe's", () => {
  // tsc reads this: a field that Stripe does not publish, or with another type, does not compile.
  const published = (
    intent: IntentWire,
    charge: ChargeWire,
    refund: RefundWire,
  ): [Partial<Stripe.PaymentIntent>, Partial<Stripe.Charge>, Partial<Stripe.Refund>] => [
    intent,
    charge,
    refund,
  ];
  expect(published).toBeTypeOf("function");
});

test("an intent is created, read and confirmed step by step", async () => {
  const created = await stripe.paymentIntents.create({ amount: 300, currency: "USD" });
  expect(created).toMatchObject({ status: "requires_payment_method", latest_charge: null });
  expect(created).toMatchObject({ currency: "usd", amount_received: 0, payment_method: null });

  const held = await stripe.paymentIntents.create({
    amount: 300,
    currency: "usd",
    payment_method: "pm_card_visa",
  });
  expect(held).toMatchObject({ status: "requires_confirmation", payment_method: "pm_card_visa" });
  expect(bare(await stripe.paymentIntents.retrieve(held.id))).toEqual(bare(held));

  const confirmed = await stripe.paymentIntents.confirm(held.id);
  expect(confirmed).toMatchObject({ id: held.id, status: "succeeded", amount_received: 300 });
  const withCard = { payment_method: "pm_card_mastercard" };
  expect(await stripe.paymentIntents.confirm(created.id, withCard)).toMatchObject(withCard);
  expect(bare(await stripe.paymentIntents.retrieve(held.id))).toEqual(bare(confirmed));
});

test("an intent is confirmed once: again, or without a card, is an unexpected state", async () => {
  const paid = await pay();
  const empty = await stripe.paymentIntents.create({ amount: 300, currency: "usd" });

  for (const { id } of [paid, empty]) {
    expect(await refusalOf(stripe.paymentIntents.confirm(id))).toMatchObject({
      type: "StripeInvalidRequestError",
      statusCode: 400,
      code: "payment_intent_unexpected_state",
      raw: { payment_intent: { id } },
    });
  }
  const charges = (await sandbox.charges()).map(({ paymentIntent }) => paymentIntent);
  expect(charges.filter((id) => id === paid.id)).toHaveLength(1);
  expect(charges).not.toContain(empty.id);
});

test("a declined card is a stored 402: the intent waits for another card, the failed charge is kept", async () => {
  const key = freshKey();
  const ask = () => refusalOf(pay({ key, payment_method: "pm_card_chargeDeclined" }));

  const refused = await ask();
  const again = await ask();

  expect(refused).toMatchObject({ type: "StripeCardError", rawType: "card_error" });
  expect(refused).toMatchObject({ statusCode: 402, code: "card_declined" });
  expect(refused.raw).toMatchObject({ decline_code: "generic_decline" });
  expect(again.raw.payment_intent).toEqual(refused.raw.payment_intent);
  const intent = await stripe.paymentIntents.retrieve(refused.raw.payment_intent!.id);
  expect(bare(intent)).toEqual(refused.raw.payment_intent);
  expect(intent).toMatchObject({
    status: "requires_payment_method",
    payment_method: null,
    amount_received: 0,
    latest_charge: refused.raw.charge,
    last_payment_error: {
      type: "card_error",
      code: "card_declined",
      decline_code: "generic_decline",
      charge: refused.raw.charge,
      message: refused.message,
    },
  });
  const charges = await chargesUnder(key);
  expect(charges).toMatchObject([{ status: "failed", failureCode: "card_declined" }]);
  expect((await callsUnder(key)).map(({ status, isReplayed }) => [status, isReplayed])).toEqual([
    [402, false],
    [402, true],
  ]);
  expect(
    await stripe.paymentIntents.confirm(intent.id, { payment_method: "pm_card_visa" }),
  ).toMatchObject({
    status: "succeeded",
    last_payment_error: null,
  });
});

test.each([
  ["pm_card_visa_chargeDeclinedInsufficientFunds", "card_declined", "insufficient_funds"],
  ["pm_card_chargeDeclinedExpiredCard", "expired_card", "expired_card"],
])("%s is declined for its own reason", async (payment_method, code, decline_code) => {
  const refused = await refusalOf(pay({ payment_method }));
  expect(refused).toMatchObject({ statusCode: 402, code, raw: { decline_code } });
});

test("metadata comes back as it was sent, whatever is in it", async () => {
  const metadata = {
    payment_id: "pay_ünï & = + % 💶",
    "order.id": "ord_1",
    "a b+c&d=e%5B": "\n\t\"'",
    constructor: "x",
    toString: "y",
  };
  const intent = await pay({ metadata: { ...metadata, unset: "" } });
  expect(intent.metadata).toEqual(metadata);
  expect((await stripe.paymentIntents.retrieve(intent.id)).metadata).toEqual(metadata);
  expect(await sandbox.chargesOf(metadata.payment_id)).toHaveLength(1);
});

test.each([
  [{ amount: 0 }, "parameter_invalid_integer", "amount"],
  [{ amount: 12.5 }, "parameter_invalid_integer", "amount"],
  [{ amount: undefined }, "parameter_missing", "amount"],
  [{ currency: "euro" }, undefined, "currency"],
  [{ payment_method: "pm_nobody" }, "resource_missing", "payment_method"],
  [{ payment_method: "pm_sandbox_slow_60001" }, "resource_missing", "payment_method"],
  [{ payment_method: undefined }, "parameter_missing", "payment_method"],
  [{ metadata: { ["k".repeat(41)]: "v" } }, undefined, `metadata[${"k".repeat(41)}]`],
  [{ capture_method: "manual" }, undefined, "capture_method"],
  [{ expand: ["latest_charge"] }, "parameter_unknown", "expand"],
])("a request with %j is refused, and may be mended under its key", async (wrong, code, param) => {
  const key = freshKey();

  const refused = await refusalOf(pay({ key, ...(wrong as object) }));
  const mended = await pay({ key });

  expect(refused).toMatchObject({ type: "StripeInvalidRequestError", statusCode: 400 });
  expect([refused.code, refused.param]).toEqual([code, param]);
  expect(isReplay(mended)).toBe(false);
  expect(await chargesUnder(key)).toHaveLength(1);
});

test("what is not there is a 404, and so is an address that is none", async () => {
  const missing = { statusCode: 404, code: "resource_missing", param: "intent" };
  expect(await refusalOf(stripe.paymentIntents.retrieve("pi_none"))).toMatchObject(missing);
  const confirm = stripe.paymentIntents.confirm("pi_none", { payment_method: "pm_card_visa" });
  expect(await refusalOf(confirm)).toMatchObject(missing);
  expect(await refusalOf(stripe.customers.list())).toMatchObject({
    type: "StripeInvalidRequestError",
    statusCode: 404,
  });
});

test("only a test key is let in", async () => {
  const anonymous = await raw("/v1/payment_intents/pi_1", { headers: { authorization: "" } });
  expect([anonymous.status, await anonymous.json()]).toMatchObject([
    401,
    { error: { type: "invalid_request_error" } },
  ]);
  expect(anonymous.headers.get("request-id")).toMatch(/^req_/);

  const apiKey = "sk_live_1234567890abcdef";
  const live = await refusalOf(stripe.paymentIntents.retrieve("pi_1", {}, { apiKey }));
  expect(live).toMatchObject({ type: "StripeAuthenticationError", statusCode: 401 });
  expect(live.message).not.toContain("1234567890");
  const [latest] = await sandbox.calls({ limit: 1 });
  expect(latest).toMatchObject({ path: "/v1/payment_intents/pi_1", status: 401 });
  expect(JSON.stringify(latest)).not.toContain("sk_live");
});

test("a form that cannot be read, a body that is too large and a key that is too long are refused", async () => {
  const post = (body: string, headers = {}) =>
    raw("/v1/payment_intents", { method: "POST", body, headers });
  const good = "amount=1&currency=eur&payment_method=pm_card_visa&confirm=true";

  expect((await post("metadata[a=1")).status).toBe(400);
  expect((await post("amount=1&amount[x]=2")).status).toBe(400);
  expect((await post(`metadata[a]=${"x".repeat(140_000)}`)).status).toBe(413);
  expect((await post(good, { "idempotency-key": "k".repeat(256) })).status).toBe(400);
  expect((await post(good, { "idempotency-key": "k".repeat(255) })).status).toBe(200);
});

test("calls are kept with what was asked and answered, and without secrets", async () => {
  const key = freshKey();
  const card = { number: "4242424242424242" };
  const before = Date.now();
  await refusalOf(pay({ key, payment_method_data: { type: "card", card } as never }));
  const intent = await pay({ key, metadata: { payment_id: "pay_called" } });

  const [refused, paid] = await callsUnder(key);
  expect(refused).toMatchObject({ status: 400, params: { payment_method_data: "(not kept)" } });
  expect(paid).toEqual({
    seq: expect.any(Number),
    requestId: intent.lastResponse.requestId,
    method: "POST",
    path: "/v1/payment_intents",
    idempotencyKey: key,
    params: {
      amount: "1250",
      currency: "eur",
      payment_method: "pm_card_visa",
      confirm: "true",
      metadata: { payment_id: "pay_called" },
    },
    status: 200,
    isReplayed: false,
    isReplyLost: false,
    receivedAt: expect.toSatisfy((at: number) => at >= before && at <= Date.now()),
  });
  const kept = JSON.stringify(await sandbox.calls({ limit: 1000 }));
  expect(kept).not.toContain(card.number);
  expect(kept).not.toContain("sk_test");
});

test("the books are paged, newest first, and never returned whole", async () => {
  for (let paid = 0; paid < 3; paid += 1) await pay();
  const newest = await sandbox.charges({ limit: 3 });
  const firstPage = await sandbox.charges({ limit: 2 });
  const nextPage = await sandbox.charges({ limit: 1, before: firstPage[1]!.seq });
  expect([...firstPage, ...nextPage]).toEqual(newest);
  expect(newest[0]!.seq).toBeGreaterThan(newest[2]!.seq);
  expect(await sandbox.charges({ limit: 0 })).toHaveLength(1);
  expect((await sandbox.calls({ limit: 1e9 })).length).toBeLessThanOrEqual(1000);
});

test("a payment that was charged twice is seen, and the totals add up", async () => {
  const before = await sandbox.totals();
  const metadata = { payment_id: `pay_${freshKey()}` };
  await pay({ metadata, currency: "nzd" });
  await refusalOf(pay({ metadata, payment_method: "pm_card_chargeDeclined" }));
  const second = await pay({ metadata, currency: "nzd" });
  await stripe.refunds.create({ payment_intent: second.id, amount: 250 });

  const charges = await sandbox.chargesOf(metadata.payment_id);
  expect(charges.map(({ status }) => status)).toEqual(["succeeded", "failed", "succeeded"]);
  const after = await sandbox.totals();
  expect(after.charges - before.charges).toBe(2);
  expect(after.declined - before.declined).toBe(1);
  expect(after.refunds - before.refunds).toBe(1);
  expect([after.captured["nzd"], after.refunded["nzd"]]).toEqual([2500, 250]);
});
