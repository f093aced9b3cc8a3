import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";

import { CRONS } from "../../src/env.ts";
import worker from "../../src/index.ts";
import { pay, paymentsOf, placeOrder } from "./payments.ts";
import { emptyLedger, plant } from "./planted.ts";
import { ledgerSize, openShop, sql } from "./shop.ts";

beforeEach(emptyLedger);

test.each([
  ["sweeps, and leaves what hangs alone", { cron: CRONS.sweep, left: 0, status: "processing" }],
  ["reconciles, and sweeps nothing", { cron: CRONS.reconcile, left: 3, status: "succeeded" }],
  ["does both by a cron that is neither", { cron: "0 * * * *", left: 0, status: "succeeded" }],
  ["does both by hand", { cron: "", left: 0, status: "succeeded" }],
])("the Worker %s", async (_, { cron, left, status }) => {
  const order = await orderWithHangingPayment();
  await plant("old", 3, { expiresAt: Date.now() - 1 });

  await worker.scheduled(createScheduledController({ cron }), env);

  expect(await ledgerSize("old")).toBe(left);
  expect((await paymentsOf(order))[0]).toMatchObject({ status });
  await worker.scheduled(createScheduledController(), env);
});

async function orderWithHangingPayment(): Promise<string> {
  const shop = await openShop();
  const order = await placeOrder(shop);
  await pay(shop, order, "k", "pm_sandbox_lost_reply");
  await sql`UPDATE payments SET updated_at = 0 WHERE order_id = ${order}`.run();
  await sql`UPDATE idempotency_keys SET updated_at = 0 WHERE principal = ${shop.account.id}`.run();
  return order;
}
