import type { Stripe } from "stripe";
import { expect, test, vi } from "vitest";

import type { RefundWire } from "../../src/payments/sandbox/wire.ts";
import {
  callsUnder,
  freshKey,
  isReplay,
  pay,
  refusalOf,
  sandbox,
  stripe,
} from "./stripe-sandbox.ts";

async function refundedOf(intent: Stripe.PaymentIntent): Promise<number> {
  const charges = await sandbox.charges({ limit: 1000 });
  return charges.find(({ id }) => id === intent.latest_charge)!.amountRefunded;
}

async function refundsOf(intent: Stripe.PaymentIntent) {
  const refunds = await sandbox.refunds({ limit: 1000 });
  return refunds.filter(({ paymentIntent }) => paymentIntent === intent.id).toReversed();
}

test("a refund has the shape that Stripe publishes, and by default gives back all that is left", async () => {
  const key = freshKey();
  const intent = await pay();
  await stripe.refunds.create({ payment_intent: intent.id, amount: 50 });

  const refund = await stripe.refunds.create(
    {
      payment_intent: intent.id,
      reason: "requested_by_customer",
      metadata: { refund_id: "ref_1", payment_id: "pay_1" },
    },
    { idempotencyKey: key },
  );

  const expected = {
    id: expect.stringMatching(/^re_[0-9a-f]{32}$/) as string,
    object: "refund",
    amount: 1200,
    charge: intent.latest_charge,
    created: expect.any(Number) as number,
    currency: "eur",
    metadata: { refund_id: "ref_1", payment_id: "pay_1" },
    payment_intent: intent.id,
    reason: "requested_by_customer",
    status: "succeeded",
  } satisfies RefundWire satisfies Partial<Stripe.Refund>;
  expect(refund).toEqual(expected);
  expect(await stripe.refunds.retrieve(refund.id)).toEqual(refund);
  expect((await refundsOf(intent))[1]).toEqual({
    seq: expect.any(Number),
    id: refund.id,
    charge: intent.latest_charge,
    paymentIntent: intent.id,
    refundId: "ref_1",
    paymentId: "pay_1",
    amount: 1200,
    currency: "eur",
    idempotencyKey: key,
    createdAt: expect.any(Number),
  });
  expect(await refundedOf(intent)).toBe(1250);
});

test("refunds are partial and repeated, up to what was charged and no further", async () => {
  const intent = await pay({ amount: 1000 });
  const refund = (amount?: number) =>
    stripe.refunds.create({ payment_intent: intent.id, ...(amount !== undefined && { amount }) });

  await refund(400);
  await refund(500);
  const tooMuch = await refusalOf(refund(101));
  await refund(100);
  const nothingLeft = [await refusalOf(refund()), await refusalOf(refund(1))];

  expect(tooMuch).toMatchObject({ type: "StripeInvalidRequestError", statusCode: 400 });
  expect([tooMuch.code, tooMuch.param]).toEqual([undefined, "amount"]);
  for (const refused of nothingLeft) {
    expect(refused).toMatchObject({ statusCode: 400, code: "charge_already_refunded" });
  }
  expect((await refundsOf(intent)).map(({ amount }) => amount)).toEqual([400, 500, 100]);
  expect(await refundedOf(intent)).toBe(1000);
});

test("ten refunds at once give back no more than was charged", async () => {
  const intent = await pay({ amount: 1000, payment_method: "pm_sandbox_refund_slow_20" });
  const refunds = Array.from({ length: 10 }, () =>
    stripe.refunds.create({ payment_intent: intent.id, amount: 300 }),
  );

  const results = await Promise.allSettled(refunds);

  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(3);
  expect(await refundedOf(intent)).toBe(900);
});

test("a refund that is refused is a stored result: its key stays refused", async () => {
  const key = freshKey();
  const intent = await pay({ amount: 100 });
  const refund = () =>
    stripe.refunds.create({ payment_intent: intent.id, amount: 101 }, { idempotencyKey: key });

  await refusalOf(refund());
  await refusalOf(refund());

  const calls = await callsUnder(key);
  expect(calls.map(({ status, isReplayed }) => [status, isReplayed])).toEqual([
    [400, false],
    [400, true],
  ]);
});

test("only what was charged is refunded, by its intent or by its charge", async () => {
  const declined = await refusalOf(pay({ payment_method: "pm_card_chargeDeclined" }));
  const intent = await pay();
  const byCharge = await stripe.refunds.create({
    charge: intent.latest_charge as string,
    amount: 1,
  });
  expect(byCharge.payment_intent).toBe(intent.id);

  const refuse = (params: Stripe.RefundCreateParams) => refusalOf(stripe.refunds.create(params));
  const failed = declined.raw.payment_intent!.id;
  expect(await refuse({ payment_intent: failed })).toMatchObject({ statusCode: 400 });
  expect(await refuse({ charge: declined.raw.charge! })).toMatchObject({ statusCode: 400 });
  expect(await refuse({ payment_intent: "pi_none" })).toMatchObject({
    statusCode: 400,
    code: "resource_missing",
    param: "payment_intent",
  });
  expect(await refuse({ charge: "ch_none" })).toMatchObject({
    code: "resource_missing",
    param: "charge",
  });
  expect(await refuse({})).toMatchObject({ statusCode: 400, param: "payment_intent" });
  const both = { payment_intent: intent.id, charge: intent.latest_charge as string };
  expect(await refuse(both)).toMatchObject({ statusCode: 400, param: "payment_intent" });
  expect(await refuse({ payment_intent: intent.id, amount: 0 })).toMatchObject({ param: "amount" });
  expect(await refuse({ payment_intent: intent.id, reason: "bored" })).toMatchObject({
    param: "reason",
  });
  expect(await refusalOf(stripe.refunds.retrieve("re_none"))).toMatchObject({
    statusCode: 404,
    code: "resource_missing",
  });
  expect(await refundedOf(intent)).toBe(1);
});

test("refunds are listed newest first, page by page, for an intent or a charge", async () => {
  const intent = await pay();
  const made: string[] = [];
  for (const amount of [1, 2, 3]) {
    made.unshift((await stripe.refunds.create({ payment_intent: intent.id, amount })).id);
  }
  await stripe.refunds.create({ payment_intent: (await pay()).id });

  const page = await stripe.refunds.list({ payment_intent: intent.id, limit: 2 });
  expect(page).toMatchObject({ object: "list", url: "/v1/refunds", has_more: true });
  expect(page.data.map(({ id }) => id)).toEqual(made.slice(0, 2));
  const ofCharge = await stripe.refunds.list({ charge: intent.latest_charge as string });
  expect(ofCharge).toMatchObject({ has_more: false, data: made.map((id) => ({ id })) });
  const exactly = await stripe.refunds.list({ payment_intent: intent.id, limit: 3 });
  expect([exactly.data.length, exactly.has_more]).toEqual([3, false]);
  const listed: string[] = [];
  for await (const { id } of stripe.refunds.list({ payment_intent: intent.id, limit: 1 })) {
    listed.push(id);
  }
  expect(listed).toEqual(made);
  expect(await refusalOf(stripe.refunds.list({ starting_after: "re_none" }))).toMatchObject({
    code: "resource_missing",
    param: "starting_after",
  });
  expect(await refusalOf(stripe.refunds.list({ limit: 101 }))).toMatchObject({ param: "limit" });
});

test("pm_sandbox_refund_refused: what was paid with it is never refunded", async () => {
  const intent = await pay({ payment_method: "pm_sandbox_refund_refused" });
  const refused = await refusalOf(stripe.refunds.create({ payment_intent: intent.id }));
  expect(refused).toMatchObject({ statusCode: 400, code: "charge_disputed" });
  expect(await refundedOf(intent)).toBe(0);
});

test("pm_sandbox_refund_lost_reply: refunds, then drops the answer", async () => {
  const intent = await pay({ payment_method: "pm_sandbox_refund_lost_reply" });
  const key = freshKey();
  const refund = () =>
    stripe.refunds.create({ payment_intent: intent.id, amount: 10 }, { idempotencyKey: key });

  const lost = await refusalOf(refund());
  const refundedThen = await refundedOf(intent);
  const retry = await refund();

  expect(lost).toMatchObject({ type: "StripeConnectionError", statusCode: undefined });
  expect(refundedThen).toBe(10);
  expect(isReplay(retry)).toBe(true);
  expect(await refundsOf(intent)).toMatchObject([{ id: retry.id, amount: 10 }]);
});

test("pm_sandbox_refund_unavailable_once: 503 without a refund, then works", async () => {
  const intent = await pay({ payment_method: "pm_sandbox_refund_unavailable_once" });
  const key = freshKey();
  const refund = () =>
    stripe.refunds.create({ payment_intent: intent.id, amount: 10 }, { idempotencyKey: key });

  expect(await refusalOf(refund())).toMatchObject({ statusCode: 503, rawType: "api_error" });
  expect(await refundsOf(intent)).toEqual([]);
  expect(isReplay(await refund())).toBe(false);
  expect(await refundsOf(intent)).toHaveLength(1);
});

test("pm_sandbox_refund_slow_<ms>: waits, and goes on when its caller has hung up", async () => {
  const intent = await pay({ payment_method: "pm_sandbox_refund_slow_300" });
  const key = freshKey();
  const refund = (timeout: number) =>
    stripe.refunds.create({ payment_intent: intent.id }, { idempotencyKey: key, timeout });

  expect(await refusalOf(refund(50))).toMatchObject({ type: "StripeConnectionError" });
  expect(await refundsOf(intent)).toEqual([]);
  await vi.waitFor(async () => expect(await refundsOf(intent)).toHaveLength(1), { timeout: 5_000 });
  expect(isReplay(await refund(5_000))).toBe(true);
});
