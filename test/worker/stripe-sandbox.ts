import { env } from "cloudflare:workers";
import type { Stripe } from "stripe";

import { configOf } from "../../src/env.ts";
import { sandboxOf, stripeOf } from "../../src/payments/provider.ts";

const config = configOf({});

/** The real client, as the shop makes it, and the books of the provider behind it. */
export const stripe = stripeOf(config, env.SANDBOX);
export const sandbox = sandboxOf(config, env.SANDBOX)!;

export const freshKey = () => `key_${crypto.randomUUID()}`;

interface Asked extends Partial<Stripe.PaymentIntentCreateParams> {
  key?: string;
  timeout?: number;
}

/** Charges 12.50 EUR to a card that is good, unless something else is asked for. */
export function pay({ key = freshKey(), timeout, ...params }: Asked = {}) {
  const all = { amount: 1250, currency: "eur", payment_method: "pm_card_visa", confirm: true };
  const options = timeout === undefined ? {} : { timeout };
  return stripe.paymentIntents.create({ ...all, ...params }, { idempotencyKey: key, ...options });
}

/** Whether an answer was a stored one. Its headers are what fetch gave, whatever their type says. */
export function isReplay({ lastResponse }: Stripe.Response<object>): boolean {
  return (lastResponse.headers as unknown as Headers).get("idempotent-replayed") === "true";
}

/** What a call that must fail was answered, as the stripe package reports it. */
export async function refusalOf(call: Promise<unknown>) {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason as Stripe.errors.StripeError,
  );
  if (error === undefined) throw new Error("the call was not refused");
  const { type, rawType, statusCode, code, param, message } = error;
  return { type, rawType, statusCode, code, param, message, raw: error.raw as Refused };
}

interface Refused {
  charge?: string;
  decline_code?: string;
  payment_intent?: Stripe.PaymentIntent;
}

export async function callsUnder(key: string) {
  const calls = await sandbox.calls({ limit: 1000 });
  return calls.filter((call) => call.idempotencyKey === key).toReversed();
}

export async function chargesUnder(key: string) {
  const charges = await sandbox.charges({ limit: 1000 });
  return charges.filter((charge) => charge.idempotencyKey === key).toReversed();
}

/** Past the client: what no client would send. */
export function raw(path: string, init: RequestInit = {}) {
  const headers = new Headers({ authorization: "Bearer sk_test_raw" });
  new Headers(init.headers).forEach((value, name) => headers.set(name, value));
  return sandbox.fetch(`https://api.stripe.com${path}`, { ...init, headers });
}
