import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Stripe } from "stripe";
import { afterEach, expect, test, vi } from "vitest";

import { configOf } from "../../src/env.ts";
import { stripeOf } from "../../src/payments/provider.ts";
import { StripeSandbox } from "../../src/payments/sandbox/sandbox.ts";
import { refusalOf } from "./stripe-sandbox.ts";

const URL_OF_SHOP = "https://shop.test/webhooks/stripe";
const SETTINGS = {
  STRIPE_WEBHOOK_SECRETS: "whsec_new,whsec_old",
  SANDBOX_WEBHOOK_URL: URL_OF_SHOP,
};

afterEach(() => void vi.restoreAllMocks());

interface Received {
  url: string;
  method: string;
  contentType: string | null;
  redirect: string;
  signature: string;
  payload: string;
}

/**
 * A sandbox of the test's own, under other settings than the suite's, with a shop that answers its webhooks as told:
 * a status each, and the last one from then on. Alarms ring only when the test rings them.
 */
async function withSandbox(
  { answers = [200], settings = {} }: { answers?: (number | Error)[]; settings?: object },
  story: (world: {
    sandbox: StripeSandbox;
    stripe: Stripe;
    received: Received[];
    alarms: number[];
  }) => Promise<void>,
) {
  const stub = env.SANDBOX.getByName(crypto.randomUUID());
  await runInDurableObject(stub, async (_: StripeSandbox, state) => {
    const received: Received[] = [];
    const alarms: number[] = [];
    vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
      const request = new Request(input, init);
      received.push({
        url: request.url,
        method: request.method,
        contentType: request.headers.get("content-type"),
        redirect: request.redirect,
        signature: request.headers.get("stripe-signature")!,
        payload: await request.text(),
      });
      const answer = answers[Math.min(received.length, answers.length) - 1]!;
      if (answer instanceof Error) throw answer;
      return new Response(null, { status: answer });
    });
    vi.spyOn(state.storage, "setAlarm").mockImplementation(
      async (at) => void alarms.push(Number(at)),
    );
    const sandbox = new StripeSandbox(state, { ...env, ...SETTINGS, ...settings });
    const namespace = {
      getByName: () => ({
        fetch: (...args: [string, RequestInit]) => sandbox.fetch(new Request(...args)),
      }),
    };
    const stripe = stripeOf(configOf({}), namespace as never);
    await story({ sandbox, stripe, received, alarms });
  });
}

const payment = { amount: 900, currency: "eur", payment_method: "pm_card_visa", confirm: true };
const parsed = ({ payload }: { payload: string }) => JSON.parse(payload) as Stripe.Event;

test("a payment, a decline and a refund are each an event of Stripe's shape, signed and sent", async () => {
  await withSandbox({}, async ({ sandbox, stripe, received, alarms }) => {
    const key = { idempotencyKey: "key_1" };
    const intent = await stripe.paymentIntents.create(
      { ...payment, metadata: { payment_id: "pay_1" } },
      key,
    );
    await stripe.refunds.create({ payment_intent: intent.id, amount: 100 });
    const declined = await refusalOf(
      stripe.paymentIntents.create({ ...payment, payment_method: "pm_card_chargeDeclined" }),
    );
    expect(alarms).toHaveLength(3);
    expect(received).toEqual([]);

    await sandbox.alarm();

    expect(received).toHaveLength(3);
    for (const { url, method, contentType, redirect, signature, payload } of received) {
      expect(redirect).toBe("manual");
      expect([url, method, contentType]).toEqual([
        URL_OF_SHOP,
        "POST",
        "application/json; charset=utf-8",
      ]);
      const event = await Stripe.webhooks.constructEventAsync(payload, signature, "whsec_new");
      expect(event).toEqual({
        id: expect.stringMatching(/^evt_[0-9a-f]{32}$/),
        object: "event",
        api_version: Stripe.API_VERSION,
        created: expect.any(Number),
        data: expect.any(Object),
        livemode: false,
        pending_webhooks: 1,
        request: { id: expect.stringMatching(/^req_/), idempotency_key: expect.any(String) },
        type: expect.any(String),
      });
      await expect(
        Stripe.webhooks.constructEventAsync(payload, signature, "whsec_old"),
      ).rejects.toThrow("No signatures found");
    }
    const [paid, refunded, failed] = received.map(parsed);
    expect(paid).toMatchObject({
      type: "payment_intent.succeeded",
      request: { idempotency_key: "key_1" },
    });
    expect(paid!.data.object).toEqual(JSON.parse(JSON.stringify(intent)));
    expect(refunded).toMatchObject({
      type: "charge.refunded",
      data: {
        object: {
          id: intent.latest_charge,
          object: "charge",
          amount: 900,
          amount_captured: 900,
          amount_refunded: 100,
          refunded: false,
          status: "succeeded",
          payment_intent: intent.id,
          metadata: { payment_id: "pay_1" },
        },
        previous_attributes: { amount_refunded: 0 },
      },
    });
    expect(failed).toMatchObject({ type: "payment_intent.payment_failed" });
    expect(failed!.data.object).toEqual(declined.raw.payment_intent);
  });
});

test("a replay, a refusal and what was not executed make no event", async () => {
  await withSandbox({}, async ({ sandbox, stripe }) => {
    const key = { idempotencyKey: "key_1" };
    await stripe.paymentIntents.create(payment, key);
    await stripe.paymentIntents.create(payment, key);
    await refusalOf(stripe.paymentIntents.create({ ...payment, amount: 1 }, key));
    await refusalOf(
      stripe.paymentIntents.create({ ...payment, payment_method: "pm_sandbox_unavailable_once" }),
    );
    await refusalOf(stripe.refunds.create({ payment_intent: "pi_none" }));
    expect(sandbox.events()).toHaveLength(1);
  });
});

test("an event is sent until it is accepted, each time later and signed anew, and then no more", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  await withSandbox(
    { answers: [500, new Error("unreachable"), 302, 204] },
    async ({ sandbox, stripe, received, alarms }) => {
      await stripe.paymentIntents.create(payment);
      const waits: number[] = [];
      for (let rung = 0; rung < 4; rung += 1) {
        const due = alarms.at(-1)!;
        waits.push(due - Date.now());
        vi.setSystemTime(due - 1);
        await sandbox.alarm();
        vi.setSystemTime(due);
        await sandbox.alarm();
      }

      expect(waits).toEqual([0, 1_000, 2_000, 4_000]);
      expect(received).toHaveLength(4);
      expect(new Set(received.map(({ payload }) => payload)).size).toBe(1);
      expect(new Set(received.map(({ signature }) => signature)).size).toBe(4);
      expect(sandbox.events()).toMatchObject([
        { attempts: 4, nextAttemptAt: null, deliveredAt: Date.now() },
      ]);
      await sandbox.alarm();
      expect(received).toHaveLength(4);
    },
  );
  vi.useRealTimers();
});

test("an event that nobody accepts is given up after ten tries, and can be sent again by hand", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  await withSandbox(
    { answers: [...Array.from({ length: 10 }, () => 500), 200] },
    async ({ sandbox, stripe, received, alarms }) => {
      await stripe.paymentIntents.create(payment);
      for (let rung = 0; rung < 12; rung += 1) {
        vi.setSystemTime(Math.max(Date.now(), alarms.at(-1)!));
        await sandbox.alarm();
      }
      expect(received).toHaveLength(10);
      const [event] = sandbox.events();
      expect(event).toMatchObject({ attempts: 10, nextAttemptAt: null, deliveredAt: null });

      expect(await sandbox.resend(event!.id)).toBe(true);
      expect(alarms.at(-1)).toBe(Date.now());
      await sandbox.alarm();
      expect(received).toHaveLength(11);
      expect(received[10]!.payload).toBe(event!.payload);
      expect(sandbox.events()).toMatchObject([{ attempts: 1, deliveredAt: Date.now() }]);
      expect(await sandbox.resend("evt_none")).toBe(false);
    },
  );
  vi.useRealTimers();
});

test("many events are sent in batches, one alarm after another", async () => {
  await withSandbox({}, async ({ sandbox, stripe, received, alarms }) => {
    for (let made = 0; made < 21; made += 1) await stripe.paymentIntents.create(payment);
    await sandbox.alarm();
    expect(received).toHaveLength(20);
    expect(alarms).toHaveLength(22);
    await sandbox.alarm();
    expect(received).toHaveLength(21);
    expect(alarms).toHaveLength(22);
    expect(new Set(received.map((each) => parsed(each).id)).size).toBe(21);
  });
});

test("an event is handed out signed for now, for whoever wants to send it", async () => {
  await withSandbox({}, async ({ sandbox, stripe }) => {
    const intent = await stripe.paymentIntents.create(payment);
    const [event] = sandbox.events();

    const { payload, signature } = (await sandbox.signedEvent(event!.id))!;

    const read = await Stripe.webhooks.constructEventAsync(payload, signature, "whsec_new");
    expect(read).toMatchObject({ id: event!.id, data: { object: { id: intent.id } } });
    expect(await sandbox.signedEvent("evt_none")).toBeNull();
  });
});

test.each([
  ["no address", { SANDBOX_WEBHOOK_URL: undefined }],
  [
    "no secret and no address",
    { SANDBOX_WEBHOOK_URL: undefined, STRIPE_WEBHOOK_SECRETS: undefined },
  ],
])("with %s events are kept and none is sent", async (_, settings) => {
  await withSandbox({ settings }, async ({ sandbox, stripe, received, alarms }) => {
    await stripe.paymentIntents.create(payment);
    await sandbox.alarm();
    const [event] = sandbox.events();
    expect(event).toMatchObject({
      type: "payment_intent.succeeded",
      nextAttemptAt: null,
      attempts: 0,
    });
    expect(parsed(event!).pending_webhooks).toBe(0);
    expect([alarms, received]).toEqual([[], []]);
    expect(await sandbox.resend(event!.id)).toBe(false);
  });
});

test("without a secret no event is signed", async () => {
  const settings = { SANDBOX_WEBHOOK_URL: undefined, STRIPE_WEBHOOK_SECRETS: undefined };
  await withSandbox({ settings }, async ({ sandbox, stripe }) => {
    await stripe.paymentIntents.create(payment);
    expect(await sandbox.signedEvent(sandbox.events()[0]!.id)).toBeNull();
  });
});

test("with a real key configured the sandbox sends nothing, whatever it still has due", async () => {
  await withSandbox(
    { settings: { STRIPE_SECRET_KEY: "sk_test_real" } },
    async ({ sandbox, stripe, received }) => {
      await stripe.paymentIntents.create(payment);
      await sandbox.alarm();
      expect(received).toEqual([]);
      expect(await sandbox.resend(sandbox.events()[0]!.id)).toBe(false);
    },
  );
});
