import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { Stripe } from "stripe";

import type { Ports } from "../../src/idempotency/attempt.ts";
import { audit } from "../../src/operator/audit.ts";
import { reconcile } from "../../src/payments/reconcile.ts";
import { configOf } from "../../src/env.ts";
import { type Fault, passes } from "./faulty-d1.ts";
import { realPorts, type Shop, shelve, sql } from "./shop.ts";
import { sandbox, stripe } from "./stripe-sandbox.ts";

export const SECRETS = { STRIPE_WEBHOOK_SECRETS: "whsec_new,whsec_old" };

/** A pending order of 10.00 EUR, ready to be paid. */
export async function placeOrder({ account, post }: Shop): Promise<string> {
  const product = await shelve(account.id);
  const items = [{ product_id: product, quantity: 1 }];
  const { json } = await post("/orders", { items }, `order-${crypto.randomUUID()}`);
  return String(json["id"]);
}

export const pay = (shop: Shop, order: string, key: string, method = "pm_card_visa") =>
  shop.post(`/orders/${order}/payments`, { payment_method: method }, key);

export async function paymentsOf(order: string) {
  const { results } = await sql`SELECT * FROM payments WHERE order_id = ${order} ORDER BY id`.all<{
    id: string;
    status: string;
    amount: number;
    refunded_amount: number;
    provider_payment_id: string;
    updated_at: number;
  }>();
  return results;
}

export async function statusOf(order: string): Promise<string | null> {
  return sql`SELECT status FROM orders WHERE id = ${order}`.first<string>("status");
}

/** Ids of what the provider has charged for an order, asked of the provider. */
export async function chargesOf(order: string): Promise<string[]> {
  const charges = await Promise.all(
    (await paymentsOf(order)).map(({ id }) => sandbox.chargesOf(id)),
  );
  return charges
    .flat()
    .filter(({ status }) => status === "succeeded")
    .map(({ id }) => id);
}

/** What the provider has given back for an order, asked of the provider. */
export async function refundsGiven(order: string): Promise<string[]> {
  const given = await Promise.all(
    (await paymentsOf(order)).map(({ provider_payment_id }) =>
      stripe.refunds.list({ payment_intent: provider_payment_id }),
    ),
  );
  return given.flatMap(({ data }) => data.map(({ id }) => id));
}

/** The names of the guarantees that do not hold, over everything there is. */
export async function brokenGuarantees(): Promise<string[]> {
  const { checks } = await audit(drizzle(env.DB), sandbox);
  return checks
    .filter(({ violations }) => violations > 0)
    .map(({ name, ids }) => `${name}: ${ids.join(", ")}`);
}

export function reconcileNow(ports: Partial<Ports>, DB: D1Database = env.DB) {
  return reconcile({
    db: drizzle(DB),
    ports: { ...realPorts, ...ports },
    settings: configOf(env),
    provider: { stripe, timeoutMs: 10_000 },
  });
}

/** The provider, with something between it and the shop. */
export function faultyProvider({ always = passes }: { always?: Fault } = {}) {
  const script: Fault[] = [];
  const calls: string[] = [];
  const fetchThrough = (url: string, init?: RequestInit) => {
    calls.push(`${init?.method ?? "GET"} ${new URL(url).pathname}`);
    return (script.shift() ?? always)(() => sandbox.fetch(url, init));
  };
  return {
    SANDBOX: { getByName: () => ({ fetch: fetchThrough }) } as unknown as Env["SANDBOX"],
    calls,
    next: (...faults: Fault[]) => void script.push(...faults),
  };
}

/** Answers in the provider's place. */
export function answering(body: object, status = 200): Fault {
  return async <Result>() => Response.json(body, { status }) as Result;
}

/** A signed event, as the provider sends it. */
export async function deliver(
  shop: Shop,
  event: unknown,
  {
    secret = "whsec_new",
    at = Date.now(),
    contentType = "application/json",
  }: { secret?: string; at?: number; contentType?: string | undefined } = {},
) {
  const payload = JSON.stringify(event);
  const signature = await new Stripe("sk_test_x").webhooks.generateTestHeaderStringAsync({
    payload,
    secret,
    timestamp: Math.floor(at / 1000),
  });
  const headers = { "stripe-signature": signature, "content-type": contentType };
  return shop.send(
    new Request("http://shop.test/webhooks/stripe", { method: "POST", headers, body: payload }),
  );
}

/** What the sandbox would send about a payment of late, newest first. */
export async function eventsAbout(paymentId: string) {
  const events = await sandbox.events({ limit: 100 });
  return events
    .map(({ payload }) => JSON.parse(payload) as StripeEvent)
    .filter(({ data }) => data.object.metadata?.["payment_id"] === paymentId);
}

export interface StripeEvent {
  id: string;
  type: string;
  data: { object: { id: string; metadata?: Record<string, string> } };
}
