import { expect, test } from "vitest";

import { openOffice } from "./operator.ts";
import { pay, paymentsOf, placeOrder } from "./payments.ts";
import { openShop, sql, TestClock } from "./shop.ts";

const PENDING_TTL_MS = 30_000;

interface Listed {
  id: string;
  since: string;
  last_asked_at: string;
}

test("what is unsettled is listed oldest first, payments and refunds alike, however late it was asked for", async () => {
  const clock = new TestClock();
  const shop = await openShop({ ports: { now: clock.now } });
  const { ask } = await openOffice({ account: shop.account, clock });
  const lost = "pm_sandbox_lost_reply";
  const refundable = await placeOrder(shop);
  const paid = await pay(shop, refundable, "paid", "pm_sandbox_refund_lost_reply");
  const [first, last] = [await placeOrder(shop), await placeOrder(shop)];

  await pay(shop, first, "first", lost);
  clock.advance(1_000);
  await shop.post(`/payments/${String(paid.json["id"])}/refunds`, { amount: 1 }, "refund");
  clock.advance(1_000);
  await pay(shop, last, "last", lost);
  const [payments, refund] = [
    [(await paymentsOf(first))[0]!.id, (await paymentsOf(last))[0]!.id],
    await sql`SELECT id FROM refunds WHERE status = 'processing'`.first<string>("id"),
  ];
  clock.advance(PENDING_TTL_MS - 1_000);
  // As of now: what is asked for again and again hangs all the same.
  await sql`UPDATE payments SET updated_at = ${clock.now()} WHERE id = ${payments[0]}`.run();
  const early = await ask("/admin/unsettled");
  clock.advance(1_001);

  const late = await ask("/admin/unsettled");

  const [hanging, listed] = [early, late].map(({ json }) => json["data"] as Listed[]) as [
    Listed[],
    Listed[],
  ];
  expect(hanging.map(({ id }) => id)).toEqual([payments[0]]);
  expect(listed.map(({ id }) => id)).toEqual([payments[0], refund, payments[1]]);
  expect(listed[0]!.last_asked_at > listed[2]!.last_asked_at).toBe(true);
});

test("what a clock that was far ahead has begun is listed at once", async () => {
  const clock = new TestClock();
  const shop = await openShop({ ports: { now: clock.now } });
  const { ask } = await openOffice({ account: shop.account, clock });
  const order = await placeOrder(shop);
  await pay(shop, order, "k", "pm_sandbox_lost_reply");
  const [payment] = await paymentsOf(order);
  clock.advance(-PENDING_TTL_MS);
  const withinALease = await ask("/admin/unsettled");
  clock.advance(-1);

  const beyond = await ask("/admin/unsettled");

  expect(withinALease.body).not.toContain(payment!.id);
  expect(beyond.body).toContain(payment!.id);
});
