import { env } from "cloudflare:workers";
import { afterEach, expect, test, vi } from "vitest";

import { configOf } from "../../src/env.ts";
import { sandboxOf, stripeOf } from "../../src/payments/provider.ts";
import { refusalOf } from "./stripe-sandbox.ts";

afterEach(() => void vi.restoreAllMocks());

const unreachable = {
  getByName: () => {
    throw new Error("the sandbox was asked for");
  },
} as never;

/** What the client sends over the network, to a server that knows nothing. */
function spyOnNetwork() {
  const sent: Request[] = [];
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    sent.push(new Request(input, init));
    return Response.json({ id: "pi_real", object: "payment_intent" });
  });
  return sent;
}

const payment = { amount: 100, currency: "eur", payment_method: "pm_card_visa", confirm: true };

test.each([
  [{}, "https://api.stripe.com/v1/payment_intents"],
  [{ STRIPE_API_BASE: "http://127.0.0.1:12111" }, "http://127.0.0.1:12111/v1/payment_intents"],
  [{ STRIPE_API_BASE: "http://stripe.test" }, "http://stripe.test/v1/payment_intents"],
  [{ STRIPE_API_BASE: "https://stripe.test/" }, "https://stripe.test/v1/payment_intents"],
])(
  "with a secret key and %j the calls go to Stripe and never to the sandbox",
  async (more, url) => {
    const sent = spyOnNetwork();
    const config = configOf({ STRIPE_SECRET_KEY: "sk_test_real", ...more });

    const stripe = stripeOf(config, unreachable);
    const intent = await stripe.paymentIntents.create(payment, { idempotencyKey: "key_1" });

    expect(intent.id).toBe("pi_real");
    expect(sent.map((request) => request.url)).toEqual([url]);
    expect(sent[0]!.headers.get("authorization")).toBe("Bearer sk_test_real");
    expect(sent[0]!.headers.get("idempotency-key")).toBe("key_1");
    expect(sandboxOf(config, unreachable)).toBeUndefined();
  },
);

test("without a secret key the calls go to the sandbox and never to the network", async () => {
  const sent = spyOnNetwork();
  const config = configOf({});

  const intent = await stripeOf(config, env.SANDBOX).paymentIntents.create(payment);

  expect(sent).toEqual([]);
  const charges = await sandboxOf(config, env.SANDBOX)!.charges({ limit: 1 });
  expect(charges).toMatchObject([{ paymentIntent: intent.id }]);
});

test.each([409, 500, 503])("the client tries nothing again by itself: not a %i", async (status) => {
  const answer = { error: { type: "api_error", message: "no" } };
  const send = vi
    .spyOn(globalThis, "fetch")
    .mockImplementation(async () => Response.json(answer, { status }));
  const stripe = stripeOf(configOf({ STRIPE_SECRET_KEY: "sk_test_real" }), unreachable);
  expect(await refusalOf(stripe.paymentIntents.create(payment))).toMatchObject({
    statusCode: status,
  });
  expect(send).toHaveBeenCalledOnce();
});

test("a timeout is given with the call, and reported as a connection that failed", async () => {
  const stripe = stripeOf(configOf({}), env.SANDBOX);
  const slow = { ...payment, payment_method: "pm_sandbox_slow_500" };
  // Without it the call would succeed, half a second later.
  const refused = await refusalOf(stripe.paymentIntents.create(slow, { timeout: 60 }));
  expect(refused).toMatchObject({ type: "StripeConnectionError" });
  expect(refused.message).toContain("60ms");
});
