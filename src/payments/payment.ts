import { z } from "@hono/zod-openapi";

import { Currency, timestamp } from "../wire.ts";
import type { PaymentRow, RefundRow } from "./schema.ts";

export const Payment = z
  .object({
    id: z.string(),
    order_id: z.string(),
    status: z.enum(["processing", "succeeded", "failed"]),
    amount: z.int().describe("Integer minor units of `currency`."),
    refunded_amount: z
      .int()
      .describe("Given back, or reserved by a refund that is being processed."),
    currency: Currency,
    payment_method: z.string(),
    decline_code: z.string().nullable(),
    created_at: z.iso.datetime(),
  })
  .openapi("Payment", {
    example: {
      id: "pay_0192f3a0-0000-7000-8000-000000000003",
      order_id: "ord_0192f3a0-0000-7000-8000-000000000002",
      status: "succeeded",
      amount: 2500,
      refunded_amount: 0,
      currency: "EUR",
      payment_method: "pm_card_visa",
      decline_code: null,
      created_at: "2026-01-01T12:00:00.000Z",
    },
  });

export function paymentToWire(row: PaymentRow): z.infer<typeof Payment> {
  return {
    id: row.id,
    order_id: row.orderId,
    status: row.status,
    amount: row.amount,
    refunded_amount: row.refundedAmount,
    currency: row.currency,
    payment_method: row.paymentMethod,
    decline_code: row.declineCode,
    created_at: timestamp(row.createdAt),
  };
}

export const Refund = z
  .object({
    id: z.string(),
    payment_id: z.string(),
    status: z.enum(["processing", "succeeded", "failed"]),
    amount: z.int(),
    currency: Currency,
    reason: z.string().nullable(),
    created_at: z.iso.datetime(),
  })
  .openapi("Refund", {
    example: {
      id: "ref_0192f3a0-0000-7000-8000-000000000004",
      payment_id: "pay_0192f3a0-0000-7000-8000-000000000003",
      status: "succeeded",
      amount: 500,
      currency: "EUR",
      reason: "one mug was broken",
      created_at: "2026-01-01T12:00:00.000Z",
    },
  });

export function refundToWire(row: RefundRow, currency: string): z.infer<typeof Refund> {
  return {
    id: row.id,
    payment_id: row.paymentId,
    status: row.status,
    amount: row.amount,
    currency,
    reason: row.reason,
    created_at: timestamp(row.createdAt),
  };
}
