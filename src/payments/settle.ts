import { eq, sql } from "drizzle-orm";

import type { Database, Write } from "../idempotency/ledger.ts";
import { orders } from "../orders/schema.ts";
import { payments, refunds, type PaymentRow, type RefundRow } from "./schema.ts";

// Whoever learns first what the provider did settles it: the request, a takeover, the reconciler or a webhook. The
// triggers refuse a second settlement, so whoever comes later runs again on fresh reads and finds it settled.

/** Longest code of the provider's that is kept, UTF-16 units: it goes into a response that must be stored. */
const MAX_CODE_LENGTH = 64;

/** As much of a code of the provider's as is kept, and as the database gives it back. */
export function keptCode(code: string): string {
  return code.slice(0, MAX_CODE_LENGTH).toWellFormed();
}

interface Settlement {
  providerId: string | null;
  now: number;
}

/** The provider has charged: the payment succeeded and its order is paid. */
export function settleCharged(
  db: Database,
  payment: PaymentRow,
  { providerId, now }: Settlement,
): Write[] {
  return [
    db
      .update(payments)
      .set({ status: "succeeded", providerPaymentId: providerId, updatedAt: now })
      .where(eq(payments.id, payment.id)),
    db.update(orders).set({ status: "paid", updatedAt: now }).where(eq(orders.id, payment.orderId)),
  ];
}

/** The provider has declined: the order stays pending and may be paid under a new key. */
export function settleDeclined(
  db: Database,
  payment: PaymentRow,
  { providerId, now, code }: Settlement & { code: string },
): Write[] {
  return [
    db
      .update(payments)
      .set({
        status: "failed",
        providerPaymentId: providerId,
        declineCode: keptCode(code),
        updatedAt: now,
      })
      .where(eq(payments.id, payment.id)),
  ];
}

/** The provider has given the money back: the order's state follows from the sum of its refunds, reckoned in SQL. */
export function settleRefunded(
  db: Database,
  { refund, payment }: { refund: RefundRow; payment: PaymentRow },
  { providerId, now }: Settlement,
): Write[] {
  const givenBack = sql`(SELECT sum(amount) FROM refunds WHERE payment_id = ${payment.id} AND status = 'succeeded')`;
  return [
    db
      .update(refunds)
      .set({ status: "succeeded", providerRefundId: providerId, updatedAt: now })
      .where(eq(refunds.id, refund.id)),
    db
      .update(orders)
      .set({
        status: sql`CASE WHEN ${givenBack} = ${payment.amount} THEN 'refunded' ELSE 'partially_refunded' END`,
        updatedAt: now,
      })
      .where(eq(orders.id, payment.orderId)),
  ];
}

/** The provider has refused the refund: what was reserved for it can be refunded again. */
export function settleRefundRefused(
  db: Database,
  refund: RefundRow,
  { providerId, now, code }: Settlement & { code: string },
): Write[] {
  return [
    db
      .update(refunds)
      .set({
        status: "failed",
        providerRefundId: providerId,
        failureCode: keptCode(code),
        updatedAt: now,
      })
      .where(eq(refunds.id, refund.id)),
    db
      .update(payments)
      .set({ refundedAmount: sql`${payments.refundedAmount} - ${refund.amount}` })
      .where(eq(payments.id, refund.paymentId)),
  ];
}
