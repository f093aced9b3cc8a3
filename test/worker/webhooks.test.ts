import { afterEach, expect, test } from "vitest";

import { callLost } from "./faulty-d1.ts";
import {
  brokenGuarantees,
  chargesOf,
  answering,
  deliver,
  eventsAbout,
  faultyProvider,
  pay,
  paymentsOf,
  placeOrder,
  reconcileNow,
  SECRETS,
  statusOf,
  type StripeEvent,
} from "./payments.ts";
import { ledgerRow, openShop, sql } from "./shop.ts";

afterEach(async () => expect(await brokenGuarantees()).toEqual([]));

/** A payment that the provider has charged and the shop does not know of yet. */
async function chargedUnawares() {
  const shop = await openShop({ bindings: SECRETS });
  const order = await placeOrder(shop);
  await pay(shop, order, "k", "pm_sandbox_lost_reply");
  const [payment] = await paymentsOf(order);
  const [succeeded] = await eventsAbout(payment!.id);
  return { shop, order, payment: payment!, succeeded: succeeded! };
}

const failedFrom = ({ id, data }: StripeEvent): StripeEvent => ({
  id: `${id}_failed`,
  type: "payment_intent.payment_failed",
  data,
});

test("an event settles what is processing, and the retry of the request finds it so", async () => {
  const { shop, order, payment, succeeded } = await chargedUnawares();

  const taken = await deliver(shop, succeeded);
  const settled = await statusOf(order);
  const retry = await pay(shop, order, "k", "pm_sandbox_lost_reply");

  expect(succeeded.type).toBe("payment_intent.succeeded");
  expect([taken.status, taken.json]).toEqual([200, { received: true }]);
  expect(settled).toBe("paid");
  expect(retry.json).toMatchObject({ id: payment.id, status: "succeeded" });
  expect(await chargesOf(order)).toHaveLength(1);
});

test("an event goes through the ledger under its id, and its second sending is a replay", async () => {
  const { shop, succeeded } = await chargedUnawares();

  const first = await deliver(shop, succeeded);
  // What Stripe says of the sending differs from one to the next.
  const second = await deliver(shop, { ...succeeded, pending_webhooks: 3 });

  expect(await ledgerRow("webhook:stripe", succeeded.id)).toMatchObject({ status: "completed" });
  expect(first.headers.get("idempotent-replayed")).toBe("false");
  expect(second.headers.get("idempotent-replayed")).toBe("true");
  expect(second.body).toBe(first.body);
});

test("case 19: a confirmation and an event both settle a payment: the second is a no-op", async () => {
  const shop = await openShop({ bindings: SECRETS });
  const order = await placeOrder(shop);
  const paid = await pay(shop, order, "k");
  const before = await paymentsOf(order);
  const [succeeded] = await eventsAbout(String(paid.json["id"]));

  const taken = await deliver(shop, succeeded!);

  expect(taken.status).toBe(200);
  expect(await paymentsOf(order)).toEqual(before);
  expect(await statusOf(order)).toBe("paid");
});

test("case 19: an event that comes late, or out of order, reverses nothing", async () => {
  const { shop, order, succeeded } = await chargedUnawares();
  await deliver(shop, succeeded);

  const taken = await deliver(shop, failedFrom(succeeded));

  expect(taken.status).toBe(200);
  expect((await paymentsOf(order))[0]).toMatchObject({ status: "succeeded" });
  expect(await statusOf(order)).toBe("paid");
});

test("a failure event settles a decline that nobody heard of", async () => {
  const shop = await openShop({ bindings: SECRETS });
  const order = await placeOrder(shop);
  await pay(shop, order, "k", "pm_card_chargeDeclined");
  const [payment] = await paymentsOf(order);
  // As if the answer had been lost: the row is back where the checkpoint left it, under another id.
  await sql`INSERT INTO payments SELECT 'pay_lost', account_id, order_id, 'processing', amount, currency, 0,
    payment_method, 'lost', NULL, NULL, 0, 0 FROM payments WHERE id = ${payment!.id}`.run();
  const [failed] = await eventsAbout(payment!.id);
  const object = { ...failed!.data.object, metadata: { payment_id: "pay_lost" } };

  const taken = await deliver(shop, { ...failed!, id: "evt_lost", data: { object } });

  expect(failed!.type).toBe("payment_intent.payment_failed");
  expect(taken.status).toBe(200);
  expect((await paymentsOf(order)).map(({ status }) => status)).toEqual(["failed", "failed"]);
  expect(await statusOf(order)).toBe("pending");
});

test("a refund event settles the refunds that the provider has carried out, and no other", async () => {
  const shop = await openShop({ bindings: SECRETS });
  const order = await placeOrder(shop);
  const paid = await pay(shop, order, "pay", "pm_sandbox_refund_lost_reply");
  const payment = String(paid.json["id"]);
  const path = `/payments/${payment}/refunds`;
  await shop.post(path, { amount: 300 }, "a");
  const events = await eventsAbout(payment);
  const refunded = events.find(({ type }) => type === "charge.refunded");

  const taken = await deliver(shop, refunded!);
  const settled = await statusOf(order);
  const retry = await shop.post(path, { amount: 300 }, "a");

  expect(taken.status).toBe(200);
  expect(settled).toBe("partially_refunded");
  expect(retry.json).toMatchObject({ status: "succeeded", amount: 300 });
});

test("an event about somebody else's payment, or of another kind, is taken and changes nothing", async () => {
  const shop = await openShop({ bindings: SECRETS });
  const object = { id: "pi_1", metadata: { payment_id: "pay_elsewhere" } };

  const answers = [
    await deliver(shop, { id: "evt_1", type: "payment_intent.succeeded", data: { object } }),
    await deliver(shop, { id: "evt_2", type: "invoice.paid", data: { object: { id: "in_1" } } }),
  ];

  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
});

test("events of every kind are taken, whatever their object looks like", async () => {
  const shop = await openShop({ bindings: SECRETS });
  const error = { code: null, decline_code: null };

  const answers = [
    await deliver(shop, { id: "evt_3", type: "balance.available", data: { object: {} } }),
    await deliver(shop, {
      id: "evt_4",
      type: "payment_intent.payment_failed",
      data: { object: { id: "pi_2", metadata: null, last_payment_error: error } },
    }),
  ];

  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
});

test("an event of a type that is not used is taken, however its object differs from those that are", async () => {
  const shop = await openShop({ bindings: SECRETS });
  const odd = { id: 1, status: {}, currency: 2, metadata: { payment_id: 3 }, amount_received: 0.5 };
  const objects = [odd, { ...odd, last_payment_error: "none" }, "a string", null, undefined];

  const answers = [];
  for (const [i, object] of objects.entries()) {
    answers.push(
      await deliver(shop, { id: `evt_odd_${i}`, type: "invoice.paid", data: { object } }),
    );
  }
  answers.push(await deliver(shop, { id: "evt_bare", type: "v1.billing.meter.no_meter_found" }));

  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 6 }, () => 200));
});

test("an event that settles is refused when its object is not what its type says, and leaves no row", async () => {
  const { shop, order, succeeded } = await chargedUnawares();
  const odd = (type: string, more: object, i: number) => {
    const object = { ...succeeded.data.object, ...more };
    return deliver(shop, { id: `evt_misfit_${i}`, type, data: { object } });
  };
  const misfits: [string, object][] = [
    ["payment_intent.succeeded", { amount_received: 0.5 }],
    ["payment_intent.succeeded", { id: undefined }],
    ["payment_intent.payment_failed", { last_payment_error: "declined" }],
    ["charge.refunded", { metadata: { payment_id: 1 } }],
    ["refund.failed", { status: {} }],
  ];

  const refused = await Promise.all(misfits.map(([type, more], i) => odd(type, more, i)));

  expect(refused.map(({ json }) => [json["status"], json["error"]])).toEqual(
    misfits.map(() => [400, "invalid_request"]),
  );
  expect(await ledgerRow("webhook:stripe", "evt_misfit_0")).toBeNull();
  expect(await statusOf(order)).toBe("pending");
  await deliver(shop, succeeded);
});

test("a signed body that is no event is refused before it names a key", async () => {
  const shop = await openShop({ bindings: SECRETS });
  const bodies = [null, 1, "event", [], {}, { id: null, type: "invoice.paid" }];

  const refused = [];
  for (const body of bodies) refused.push(await deliver(shop, body));

  expect(refused.map(({ json }) => [json["status"], json["error"]])).toEqual(
    bodies.map(() => [400, "invalid_request"]),
  );
});

test("a code of any length settles what it refuses, and the retry is told as much of it as is kept", async () => {
  const { SANDBOX } = faultyProvider({ always: callLost });
  const shop = await openShop({ bindings: { ...SECRETS, SANDBOX } });
  const order = await placeOrder(shop);
  await pay(shop, order, "k");
  const [payment] = await paymentsOf(order);
  const object = {
    id: "pi_long",
    metadata: { payment_id: payment!.id },
    // Cut in the middle of a character.
    last_payment_error: { decline_code: `${"x".repeat(63)}${"😀".repeat(10_000)}` },
  };

  const taken = await deliver(shop, {
    id: "evt_long",
    type: "payment_intent.payment_failed",
    data: { object },
  });
  const retry = await pay(shop, order, "k");

  expect(taken.status).toBe(200);
  const kept = `${"x".repeat(63)}\ufffd`;
  expect(retry.json).toMatchObject({ error: "card_declined", decline_code: kept });
  expect((await paymentsOf(order))[0]).toMatchObject({ decline_code: kept });
});

test("a refund that is pending at the provider is settled by its event", async () => {
  const provider = faultyProvider();
  const shop = await openShop({ bindings: { ...SECRETS, SANDBOX: provider.SANDBOX } });
  const order = await placeOrder(shop);
  const payment = String((await pay(shop, order, "pay")).json["id"]);
  const path = `/payments/${payment}/refunds`;
  const pending = (id: string) => ({ id, object: "refund", status: "pending", amount: 400 });
  // Asked again it answers as it did, and says the same when it is asked how things stand.
  provider.next(...Array.from({ length: 4 }, () => answering(pending("re_1"))));

  const unknown = [
    await shop.post(path, { amount: 400 }, "a"),
    await shop.post(path, { amount: 400 }, "a"),
  ];
  const refund = await sql`SELECT id FROM refunds WHERE payment_id = ${payment}`.first<string>(
    "id",
  );
  const metadata = { payment_id: payment, refund_id: refund! };
  const object = { ...pending("re_1"), status: "failed", metadata };
  const taken = await deliver(shop, { id: "evt_5", type: "refund.failed", data: { object } });
  const retry = await shop.post(path, { amount: 400 }, "a");

  expect(unknown.map(({ status }) => status)).toEqual([503, 503]);
  expect(taken.status).toBe(200);
  expect(retry.json).toMatchObject({ status: 409, error: "payment_not_refundable" });
  expect((await paymentsOf(order))[0]).toMatchObject({ refunded_amount: 0 });
});

test("an event whose amount or currency is not the payment's is not taken", async () => {
  const { shop, order, succeeded } = await chargedUnawares();
  const others = [{ amount_received: 1 }, { currency: "jpy" }];

  const refused = await Promise.all(
    others.map((other, i) => {
      const object = { ...succeeded.data.object, ...other };
      return deliver(shop, { ...succeeded, id: `${succeeded.id}_${i}`, data: { object } });
    }),
  );

  expect(refused.map(({ status }) => status)).toEqual([500, 500]);
  expect(await statusOf(order)).toBe("pending");
  await deliver(shop, { ...succeeded, id: "evt_right" });
});

test("an event about a second charge, or a second refund, of what has settled is not taken", async () => {
  const shop = await openShop({ bindings: SECRETS });
  const order = await placeOrder(shop);
  const payment = String((await pay(shop, order, "pay")).json["id"]);
  const refund = String((await shop.post(`/payments/${payment}/refunds`, {}, "a")).json["id"]);
  const events = await eventsAbout(payment);
  const charged = events.find(({ type }) => type === "payment_intent.succeeded")!.data.object;
  const metadata = { payment_id: payment, refund_id: refund };
  const books = () => Promise.all([paymentsOf(order), statusOf(order)]);
  const before = await books();
  const tell = (id: string, type: string, object: object) =>
    deliver(shop, { id, type, data: { object } });

  const answers = [
    await tell("evt_first_charge", "payment_intent.succeeded", charged),
    await tell("evt_second_charge", "payment_intent.succeeded", { ...charged, id: "pi_second" }),
    await tell("evt_second_refund", "refund.updated", {
      id: "re_second",
      status: "succeeded",
      metadata,
    }),
  ];

  expect(answers.map(({ status }) => status)).toEqual([200, 500, 500]);
  expect(await books()).toEqual(before);
});

test("an event is taken again under its id, however its object is rendered meanwhile", async () => {
  const { shop, succeeded } = await chargedUnawares();
  const object = { ...succeeded.data.object, rendered_by: "another API version" };

  await deliver(shop, succeeded);
  const again = await deliver(shop, { ...succeeded, data: { object } });

  expect(again.headers.get("idempotent-replayed")).toBe("true");
});

test("an event may be larger than what a client may send, up to a limit of its own", async () => {
  const shop = await openShop({ bindings: SECRETS });
  const large = (id: string, bytes: number) =>
    deliver(shop, { id, type: "invoice.paid", data: { object: { memo: "x".repeat(bytes) } } });

  const taken = await large("evt_large", 500_000);
  const refused = await large("evt_too_large", 1_048_576);

  expect(taken.status).toBe(200);
  expect(refused.json).toMatchObject({ error: "body_too_large", limit_bytes: 1_048_576 });
});

test("an event whose id cannot be a key is refused, and leaves no row", async () => {
  const { shop, succeeded } = await chargedUnawares();
  const ids = ["", "e".repeat(256), "evt_\0", "evt_\ud800"];

  const refused = [];
  for (const id of ids) {
    refused.push(await deliver(shop, { ...succeeded, id }));
    refused.push(await deliver(shop, { id, type: "invoice.paid" }));
  }

  expect(refused.map(({ json }) => [json["status"], json["error"]])).toEqual(
    Array.from({ length: 8 }, () => [400, "invalid_request"]),
  );
  expect(
    await sql`SELECT 1 FROM idempotency_keys WHERE principal = 'webhook:stripe'
    AND key IN (${ids[0]}, ${ids[1]}, ${ids[2]}, ${ids[3]})`.first(),
  ).toBeNull();
  await deliver(shop, succeeded);
});

test("a signature that is missing, forged, of another body or too old is refused, and leaves no row", async () => {
  const { shop, order, succeeded } = await chargedUnawares();
  const bare = (headers: Record<string, string>, body: unknown = succeeded) =>
    shop.send(
      new Request("http://shop.test/webhooks/stripe", {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      }),
    );

  const refusals = [
    await bare({}),
    await bare({ "stripe-signature": "t=1,v1=00" }),
    await deliver(shop, succeeded, { secret: "whsec_wrong" }),
    await deliver(shop, succeeded, { at: Date.now() - 301_000 }),
  ];

  expect(refusals.map(({ json }) => [json["status"], json["error"]])).toEqual(
    Array.from({ length: 4 }, () => [400, "webhook_signature_invalid"]),
  );
  expect(await ledgerRow("webhook:stripe", succeeded.id)).toBeNull();
  expect(await statusOf(order)).toBe("pending");
  await deliver(shop, succeeded);
});

test("while secrets are rotated, either is accepted; with none, nothing is", async () => {
  const { shop, succeeded } = await chargedUnawares();
  const closed = await openShop();

  const nobody = await deliver(closed, succeeded);
  const old = await deliver(shop, succeeded, { secret: "whsec_old" });
  const fresh = await deliver(shop, { ...succeeded, id: "evt_fresh" }, { secret: "whsec_new" });

  expect([nobody.status, old.status, fresh.status]).toEqual([400, 200, 200]);
});

test("with a real key configured, nothing of the sandbox is reachable", async () => {
  const ADMIN_TOKEN = "operator-token-of-the-test";
  const asked: string[] = [];
  const SANDBOX = new Proxy({} as Env["SANDBOX"], {
    get: (_, name) => {
      asked.push(String(name));
      return undefined;
    },
  });
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const sandboxed = await openShop({ bindings: { ADMIN_TOKEN } });
  const real = await openShop({
    account: sandboxed.account,
    bindings: {
      ADMIN_TOKEN,
      SANDBOX,
      STRIPE_SECRET_KEY: "sk_test_real",
      // Nobody listens there: what matters is who is not asked.
      STRIPE_API_BASE: "http://127.0.0.1:1",
    },
  });
  const order = await placeOrder(real);
  const books = (shop: typeof real, path: string) =>
    shop.send(new Request(`http://shop.test/admin/${path}`, { headers }));

  const open = [await books(sandboxed, "sandbox/charges"), await books(sandboxed, "sandbox/calls")];
  const closed = [await books(real, "sandbox/charges"), await books(real, "sandbox/calls")];
  const paid = await pay(real, order, "k");
  const audit = await books(real, "audit");

  expect(open.map(({ status }) => status)).toEqual([200, 200]);
  expect(closed.map(({ status }) => status)).toEqual([404, 404]);
  expect(paid.json).toMatchObject({ status: 503, error: "outcome_unknown" });
  expect(audit.body).not.toContain("one_charge_per_payment");
  expect(asked).toEqual([]);
  await reconcileNow({ now: () => Date.now() + 86_400_000 });
});

test("operator routes take the operator's token only, and are not there without one", async () => {
  const ADMIN_TOKEN = "operator-token-of-the-test";
  const shop = await openShop({ bindings: { ADMIN_TOKEN } });
  const without = await openShop();
  const ask = (token: string) =>
    shop.send(
      new Request("http://shop.test/admin/audit", {
        headers: { authorization: `Bearer ${token}` },
      }),
    );

  const answers = [
    await ask(shop.account.apiKey),
    await ask(ADMIN_TOKEN),
    await without.get("/admin/audit"),
  ];

  expect(answers.map(({ status }) => status)).toEqual([401, 200, 404]);
  expect(answers[1]!.json).toMatchObject({ ok: true });
});
