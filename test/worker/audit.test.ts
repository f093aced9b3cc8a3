import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { expect, test } from "vitest";

import { evictExpired } from "../../src/idempotency/eviction.ts";
import { audit } from "../../src/operator/audit.ts";
import { type Fault, faultyD1 } from "./faulty-d1.ts";
import { brokenGuarantees, pay, placeOrder } from "./payments.ts";
import { plant } from "./planted.ts";
import { ledgerRow, ledgerSize, openShop, shelve, sql, TestClock } from "./shop.ts";
import { stripe } from "./stripe-sandbox.ts";

// Goal: an audit that cannot fail proves nothing. Each check is shown a database, or a provider, in which its guarantee
// is broken, and must name the offender.

const RETENTION_MS = 86_400_000;

async function broken(name: string): Promise<string[]> {
  const found = (await brokenGuarantees()).find((line) => line.startsWith(`${name}: `));
  return found === undefined ? [] : found.slice(name.length + 2).split(", ");
}

test("a shop that was used as it should be passes every check", async () => {
  const shop = await openShop();
  const order = await placeOrder(shop);
  const paid = await pay(shop, order, "pay");
  await shop.post(`/payments/${String(paid.json["id"])}/refunds`, { amount: 1 }, "refund");
  await pay(shop, await placeOrder(shop), "declined", "pm_card_chargeDeclined");
  await shop.post(`/orders/${await placeOrder(shop)}/cancel`, undefined, "cancel");

  const { ok, checks } = await audit(drizzle(env.DB), env.SANDBOX.getByName("stripe"));

  expect(checks.filter(({ violations }) => violations > 0)).toEqual([]);
  expect(ok).toBe(true);
  expect(checks).toHaveLength(14);
});

/** Breaks a guarantee, sees it named, and mends it for the next test. */
async function breaking(
  name: string,
  { by, undo, offender }: { by: D1PreparedStatement; undo: D1PreparedStatement; offender: string },
) {
  const before = await broken(name);
  await by.run();
  const during = await broken(name);
  await undo.run();

  expect(before).toEqual([]);
  expect(during).toEqual([offender]);
  expect(await broken(name)).toEqual([]);
}

test("an order without its key, and a key without its order, are named", async () => {
  const shop = await openShop();
  const order = await placeOrder(shop);
  const operation = order.slice("ord_".length);
  const rename = (from: string, to: string) =>
    sql`UPDATE idempotency_keys SET operation_id = ${to} WHERE operation_id = ${from}`;

  await breaking("effect_without_key", {
    by: rename(operation, "another"),
    undo: rename("another", operation),
    offender: order,
  });
  await breaking("key_without_effect", {
    by: rename(operation, "another"),
    undo: rename("another", operation),
    offender: "another",
  });
});

test("an order is not an offender when its key was claimed a little earlier, and evicted in time", async () => {
  const clock = new TestClock();
  // Long ago, so that nothing else in this file is evicted with it.
  clock.advance(-10 * RETENTION_MS);
  const d1 = faultyD1();
  const shop = await openShop({ bindings: { DB: d1.DB }, ports: { now: clock.now } });
  const slow: Fault = async (carryOut) => {
    const result = await carryOut();
    clock.advance(5_000);
    return result;
  };
  const product = await shelve(shop.account.id);
  d1.next(slow);
  const order = { items: [{ product_id: product, quantity: 1 }] };
  const { json } = await shop.post("/orders", order, "slow claim");
  const claimedAt = clock.now() - 5_000;

  const now = claimedAt + RETENTION_MS + 1;
  await evictExpired(drizzle(env.DB), { now, pendingTtlMs: 30_000, limit: 1_000 });

  expect(await ledgerRow(shop.account.id, "slow claim")).toBeNull();
  expect(await broken("effect_without_key")).not.toContain(json["id"]);
});

test("an order whose key was evicted in time stays no offender when the window is made longer", async () => {
  const clock = new TestClock();
  clock.advance(-3 * RETENTION_MS);
  const shop = await openShop({ ports: { now: clock.now } });
  await placeOrder(shop);
  const deleted = await placeOrder(shop);
  const operation = deleted.slice("ord_".length);
  await sql`UPDATE idempotency_keys SET updated_at = updated_at + 1000, expires_at = expires_at + 1000
    WHERE operation_id = ${operation}`.run();
  await sql`UPDATE orders SET created_at = created_at + 1000 WHERE id = ${deleted}`.run();

  const now = clock.now() + RETENTION_MS + 1;
  await evictExpired(drizzle(env.DB), { now, pendingTtlMs: 30_000, limit: 1_000 });
  const sound = await broken("effect_without_key");
  await sql`DELETE FROM idempotency_keys WHERE operation_id = ${operation}`.run();

  expect(await ledgerSize(shop.account.id)).toBe(0);
  expect(sound).toEqual([]);
  // What went in no eviction is missed, however old it is and whatever the window is by now.
  expect(await broken("effect_without_key")).toEqual([deleted]);
  await sql`UPDATE ledger_figures SET newest_evicted_at = newest_evicted_at + 1000`.run();
});

test("a completion in time to come, evicted, does not blind the audit to the orders until then", async () => {
  const now = Date.now();
  const newestEvictedAt = () =>
    sql`SELECT newest_evicted_at FROM ledger_figures`.first<number>("newest_evicted_at");
  const before = (await newestEvictedAt())!;
  const updatedAt = now + RETENTION_MS;
  await plant("ahead", 1, { status: "completed", expiresAt: now - 1, updatedAt });

  await evictExpired(drizzle(env.DB), { now, pendingTtlMs: 30_000, limit: 1_000 });
  const after = await newestEvictedAt();

  expect(await ledgerSize("ahead")).toBe(0);
  expect(after).toBe(now);
  await sql`UPDATE ledger_figures SET newest_evicted_at = ${before}`.run();
});

test("two keys of one operation are named", async () => {
  const shop = await openShop();
  const [one, other] = [await placeOrder(shop), await placeOrder(shop)].map((id) => id.slice(4));

  await breaking("one_key_per_operation", {
    by: sql`UPDATE idempotency_keys SET operation_id = ${one} WHERE operation_id = ${other}`,
    undo: sql`UPDATE idempotency_keys SET operation_id = ${other}
      WHERE operation_id = ${one} AND response_body LIKE ${`%${other}%`}`,
    offender: one!,
  });
});

test("stock that does not add up is named", async () => {
  const shop = await openShop();
  const product = await shelve(shop.account.id);

  await breaking("stock_adds_up", {
    by: sql`UPDATE products SET stock = stock + 1 WHERE id = ${product}`,
    undo: sql`UPDATE products SET stock = stock - 1 WHERE id = ${product}`,
    offender: product,
  });
});

test("an order whose payment is not its total is named", async () => {
  const shop = await openShop();
  const order = await placeOrder(shop);
  await pay(shop, order, "k");

  await breaking("captured_is_paid", {
    by: sql`UPDATE orders SET total = total + 1 WHERE id = ${order}`,
    undo: sql`UPDATE orders SET total = total - 1 WHERE id = ${order}`,
    offender: order,
  });
});

test("an order whose state does not follow from its refunds is named", async () => {
  const shop = await openShop();
  const order = await placeOrder(shop);
  const payment = String((await pay(shop, order, "k")).json["id"]);
  await shop.post(`/payments/${payment}/refunds`, { amount: 1 }, "refund");
  const refund = sql`SELECT id FROM refunds WHERE payment_id = ${payment}`.first<string>("id");

  await breaking("order_follows_refunds", {
    by: sql`UPDATE refunds SET amount = 1000 WHERE payment_id = ${payment}`,
    undo: sql`UPDATE refunds SET amount = 1 WHERE payment_id = ${payment}`,
    offender: order,
  });
  await breaking("nothing_moved_unasked", {
    by: sql`UPDATE refunds SET amount = 2 WHERE payment_id = ${payment}`,
    undo: sql`UPDATE refunds SET amount = 1 WHERE payment_id = ${payment}`,
    offender: (await refund)!,
  });
});

test("refunds that do not add up are named", async () => {
  const shop = await openShop();
  const payment = String((await pay(shop, await placeOrder(shop), "k")).json["id"]);

  await breaking("refunds_add_up", {
    by: sql`UPDATE payments SET refunded_amount = 1 WHERE id = ${payment}`,
    undo: sql`UPDATE payments SET refunded_amount = 0 WHERE id = ${payment}`,
    offender: payment,
  });
});

test("a payment that nobody charged is named", async () => {
  const shop = await openShop();
  const payment = String((await pay(shop, await placeOrder(shop), "k")).json["id"]);
  const away = `${payment}-away`;

  await breaking("nothing_claimed_unmoved", {
    by: sql`UPDATE payments SET id = ${away} WHERE id = ${payment}`,
    undo: sql`UPDATE payments SET id = ${payment} WHERE id = ${away}`,
    offender: away,
  });
});

const charge = (paymentId: string, key: string) =>
  stripe.paymentIntents.create(
    {
      amount: 5,
      currency: "eur",
      payment_method: "pm_card_visa",
      confirm: true,
      metadata: { payment_id: paymentId },
    },
    { idempotencyKey: key },
  );

test("a charge without a payment, and a second charge of one, are named", async () => {
  await charge("pay_of_nobody", "one");
  const once = [await broken("nothing_moved_unasked"), await broken("one_charge_per_payment")];
  await charge("pay_of_nobody", "two");
  const twice = await broken("one_charge_per_payment");

  expect(once).toEqual([["pay_of_nobody"], []]);
  expect(twice).toEqual(["pay_of_nobody"]);
});

test("of more offenders than are named, all are counted", async () => {
  const ids = Array.from({ length: 11 }, (_, i) => `pay_${i}`);
  const chargedTwice = async () => {
    const { checks } = await audit(drizzle(env.DB), env.SANDBOX.getByName("stripe"));
    return checks.find(({ name }) => name === "one_charge_per_payment")!;
  };

  const before = await chargedTwice();
  for (const id of ids) for (const time of [1, 2, 3]) await charge(id, `${id}-${time}`);
  const after = await chargedTwice();

  expect(after.violations - before.violations).toBe(11);
  expect(new Set(after.ids).size).toBe(10);
});
