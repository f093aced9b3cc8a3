import { z } from "@hono/zod-openapi";
import { eq, sql } from "drizzle-orm";

import type { Database, Write } from "../idempotency/ledger.ts";
import { type Decision, mutation } from "../idempotency/mutation.ts";
import { refuse } from "../problem.ts";
import { ById, keyedRoute } from "../routes.ts";
import { created, Money, text } from "../wire.ts";
import { giveBack, type Provider } from "./charge.ts";
import { Refund, refundToWire } from "./payment.ts";
import { selectPayment, selectRefundsOf } from "./read-payments.ts";
import { payments, type PaymentRow, refunds, type RefundRow } from "./schema.ts";
import { settleRefunded, settleRefundRefused } from "./settle.ts";

const RefundRequest = z
  .strictObject({
    amount: Money.min(1).optional().describe("Integer minor units; all that is left without it."),
    reason: text(255).optional(),
  })
  .openapi("RefundRequest", { example: { amount: 500, reason: "one mug was broken" } });

export const refundPaymentRoute = keyedRoute({
  path: "/payments/{id}/refunds",
  summary: "Refund a payment, wholly or in part",
  params: ById,
  body: RefundRequest,
  status: 201,
  wire: Refund,
  problems: ["payment_not_refundable", "refund_exceeds_payment"],
});

/**
 * Refunds in the phases of a payment. The checkpoint reserves the amount on the payment, so that two refunds cannot give
 * back more than was taken, whatever the provider would allow.
 */
export const refundPayment = (provider: Provider) =>
  mutation(refundPaymentRoute, {
    reads: ({ db, principal, params }) => [
      selectPayment(db, principal, params.id),
      selectRefundsOf(db, params.id),
    ],
    run: async (context) => {
      const { db, principal, body, key, reads, operation, now, requestId } = context;
      const [[payment], refundsOfPayment] = reads;
      if (payment === undefined) return refuse(requestId, "not_found");

      const id = `ref_${operation.id}`;
      const known = refundsOfPayment.find((refund) => refund.id === id);
      if (known?.status === "succeeded") return refunded(known, payment);
      if (known?.status === "failed") return refused(known, requestId);
      if (payment.status !== "succeeded" || payment.providerPaymentId === null) {
        return refuse(requestId, "payment_not_refundable", { payment_status: payment.status });
      }
      const refundable = payment.amount - payment.refundedAmount;
      const amount = known?.amount ?? body.amount ?? refundable;
      if (known === undefined && (amount > refundable || amount === 0)) {
        return refuse(requestId, "refund_exceeds_payment", { refundable_amount: refundable });
      }

      const refund = known ?? {
        id,
        accountId: principal,
        paymentId: payment.id,
        status: "processing",
        amount,
        reason: body.reason ?? null,
        idempotencyKey: key,
        providerRefundId: null,
        failureCode: null,
        createdAt: now,
        updatedAt: now,
      };
      const held = await context.checkpoint(
        known === undefined ? reserve(db, refund) : [touchRefund(db, id, now)],
      );
      if (held.kind !== "held") return held;

      const answer = await giveBack(provider, refund, {
        providerPaymentId: payment.providerPaymentId,
        isFirst: known === undefined,
        now,
      });
      switch (answer.kind) {
        case "unknown":
          return { kind: "outcome_unknown", error: answer.error };
        case "refused":
          return {
            ...refused({ ...refund, failureCode: answer.code }, requestId),
            writes: settleRefundRefused(db, refund, { ...answer, now }),
          };
        case "succeeded":
          return {
            ...refunded(refund, payment),
            writes: settleRefunded(db, { refund, payment }, { ...answer, now }),
          };
      }
    },
  });

function reserve(db: Database, refund: RefundRow): Write[] {
  return [
    db.insert(refunds).values(refund),
    db
      .update(payments)
      .set({ refundedAmount: sql`${payments.refundedAmount} + ${refund.amount}` })
      .where(eq(payments.id, refund.paymentId)),
  ];
}

function touchRefund(db: Database, id: string, now: number) {
  return db.update(refunds).set({ updatedAt: now }).where(eq(refunds.id, id));
}

type Decided = Extract<Decision, { kind: "decided" }>;

function refunded(refund: RefundRow, { currency }: PaymentRow): Decided {
  const wire = refundToWire({ ...refund, status: "succeeded" }, currency);
  return { kind: "decided", response: created(`/payments/${refund.paymentId}`, wire), writes: [] };
}

function refused({ id, failureCode }: RefundRow, requestId: string): Decided {
  return refuse(requestId, "payment_not_refundable", { refund_id: id, failure_code: failureCode });
}
