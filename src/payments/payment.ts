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
  .openapi("Payment");

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
  .openapi("Refund");

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
