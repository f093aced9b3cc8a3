import { sql } from "drizzle-orm";
import { check, index, integer, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";

import { accounts } from "../accounts/schema.ts";
import { orders } from "../orders/schema.ts";

/**
 * The intent to charge an order, written before the provider is asked and settled once. Money is integer minor units;
 * times are epoch ms. Triggers allow processing → succeeded and processing → failed only.
 */
export const payments = sqliteTable(
  "payments",
  {
    /** `pay_` and the id of the operation that made it. Also the provider's idempotency key, whoever asks again. */
    id: text("id").primaryKey(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    orderId: text("order_id")
      .notNull()
      .references(() => orders.id),
    status: text("status", { enum: ["processing", "succeeded", "failed"] }).notNull(),
    amount: integer("amount").notNull(),
    currency: text("currency").notNull(),
    /** What was given back, and what a refund that is being processed has reserved. */
    refundedAmount: integer("refunded_amount").notNull().default(0),
    paymentMethod: text("payment_method").notNull(),
    /** Under which key it was asked for, so that the reconciler can finish that operation. */
    idempotencyKey: text("idempotency_key").notNull(),
    /** The provider's own id (`pi_…`), once it has answered. */
    providerPaymentId: text("provider_payment_id"),
    declineCode: text("decline_code"),
    createdAt: integer("created_at").notNull(),
    /** When it was last asked of the provider, or settled. */
    updatedAt: integer("updated_at").notNull(),
  },
  (table) => [
    // Two different keys must not pay one order twice.
    uniqueIndex("payments_one_active_per_order")
      .on(table.orderId)
      .where(sql`status IN ('processing', 'succeeded')`),
    index("payments_order").on(table.orderId, table.id),
    // Holds only what is unsettled: the reconciler's work, and next to nothing.
    index("payments_processing")
      .on(table.updatedAt)
      .where(sql`status = 'processing'`),
    check("payments_status", sql`${table.status} IN ('processing', 'succeeded', 'failed')`),
    check("payments_amount_positive", sql`${table.amount} > 0`),
    check(
      "payments_refunded_at_most_amount",
      sql`${table.refundedAmount} BETWEEN 0 AND ${table.amount}`,
    ),
  ],
);

/** The intent to give money back. Its amount is reserved on the payment before the provider is asked. */
export const refunds = sqliteTable(
  "refunds",
  {
    /** `ref_` and the id of the operation that made it. Also the provider's idempotency key. */
    id: text("id").primaryKey(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    paymentId: text("payment_id")
      .notNull()
      .references(() => payments.id),
    status: text("status", { enum: ["processing", "succeeded", "failed"] }).notNull(),
    amount: integer("amount").notNull(),
    reason: text("reason"),
    idempotencyKey: text("idempotency_key").notNull(),
    providerRefundId: text("provider_refund_id"),
    failureCode: text("failure_code"),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (table) => [
    index("refunds_payment").on(table.paymentId),
    index("refunds_processing")
      .on(table.updatedAt)
      .where(sql`status = 'processing'`),
    check("refunds_status", sql`${table.status} IN ('processing', 'succeeded', 'failed')`),
    check("refunds_amount_positive", sql`${table.amount} > 0`),
  ],
);

export type PaymentRow = typeof payments.$inferSelect;
export type RefundRow = typeof refunds.$inferSelect;
