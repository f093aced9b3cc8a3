import { z } from "@hono/zod-openapi";
import { eq } from "drizzle-orm";

import type { Database } from "../idempotency/ledger.ts";
import { type Decision, mutation } from "../idempotency/mutation.ts";
import { selectOrder } from "../orders/read-orders.ts";
import { refuse } from "../problem.ts";
import { ById, keyedRoute } from "../routes.ts";
import { created, text } from "../wire.ts";
import { charge, type Provider } from "./charge.ts";
import { Payment, paymentToWire } from "./payment.ts";
import { selectPaymentsOf } from "./read-payments.ts";
import { type PaymentRow, payments } from "./schema.ts";
import { settleCharged, settleDeclined } from "./settle.ts";

const PayOrderRequest = z
  .strictObject({
    payment_method: text(64).describe("The provider's id of a payment method."),
  })
  .openapi("PayOrderRequest", { example: { payment_method: "pm_card_visa" } });

export const payOrderRoute = keyedRoute({
  path: "/orders/{id}/payments",
  summary: "Pay an order",
  params: ById,
  body: PayOrderRequest,
  status: 201,
  wire: Payment,
  problems: ["card_declined", "order_not_payable", "payment_in_progress"],
});

/**
 * Pays in phases. The claim brings the order and its payments; the checkpoint writes the intent down and renews the
 * lease; the provider is asked under the payment's id; the commit settles. Whoever takes over finds the payment and goes
 * on from there, with the same question to the provider.
 */
export const payOrder = (provider: Provider) =>
  mutation(payOrderRoute, {
    reads: ({ db, principal, params }) => [
      selectOrder(db, principal, params.id),
      selectPaymentsOf(db, params.id),
    ],
    run: async (context) => {
      const { db, principal, body, key, reads, operation, now, requestId } = context;
      const [[order], paymentsOfOrder] = reads;
      if (order === undefined) return refuse(requestId, "not_found");

      const id = `pay_${operation.id}`;
      const known = paymentsOfOrder.find((payment) => payment.id === id);
      if (known?.status === "succeeded") return charged(known);
      if (known?.status === "failed") return declined(known, requestId);
      if (known === undefined && paymentsOfOrder.some(isProcessing)) {
        return refuse(requestId, "payment_in_progress");
      }
      if (known === undefined && (order.status !== "pending" || order.total === 0)) {
        return refuse(requestId, "order_not_payable", { order_status: order.status });
      }

      const payment = known ?? {
        id,
        accountId: principal,
        orderId: order.id,
        status: "processing",
        amount: order.total,
        currency: order.currency,
        refundedAmount: 0,
        paymentMethod: body.payment_method,
        idempotencyKey: key,
        providerPaymentId: null,
        declineCode: null,
        createdAt: now,
        updatedAt: now,
      };
      const held = await context.checkpoint([
        known === undefined ? db.insert(payments).values(payment) : touchPayment(db, id, now),
      ]);
      if (held.kind !== "held") return held;

      const answer = await charge(provider, payment, { isFirst: known === undefined, now });
      switch (answer.kind) {
        case "unknown":
          return { kind: "outcome_unknown", error: answer.error };
        case "refused":
          return {
            ...declined({ ...payment, declineCode: answer.code }, requestId),
            writes: settleDeclined(db, payment, { ...answer, now }),
          };
        case "succeeded":
          return { ...charged(payment), writes: settleCharged(db, payment, { ...answer, now }) };
      }
    },
  });

function isProcessing({ status }: PaymentRow): boolean {
  return status === "processing";
}

/** Says that somebody is asking the provider again, so that the reconciler turns to others first. */
function touchPayment(db: Database, id: string, now: number) {
  return db.update(payments).set({ updatedAt: now }).where(eq(payments.id, id));
}

type Decided = Extract<Decision, { kind: "decided" }>;

function charged(payment: PaymentRow): Decided {
  const wire = paymentToWire({ ...payment, status: "succeeded" });
  return { kind: "decided", response: created(`/payments/${payment.id}`, wire), writes: [] };
}

function declined({ id, declineCode }: PaymentRow, requestId: string): Decided {
  return refuse(requestId, "card_declined", { payment_id: id, decline_code: declineCode });
}
