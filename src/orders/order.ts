import { z } from "@hono/zod-openapi";

import { Currency, timestamp } from "../wire.ts";
import { ORDER_STATUSES, type orderItems, type orders } from "./schema.ts";

export const Order = z
  .object({
    id: z.string(),
    status: z.enum(ORDER_STATUSES),
    currency: Currency,
    total: z.int().describe("Integer minor units of `currency`."),
    reference: z.string().nullable(),
    items: z.array(
      z.object({
        product_id: z.string(),
        name: z.string(),
        unit_price: z.int(),
        quantity: z.int(),
        subtotal: z.int(),
      }),
    ),
    created_at: z.iso.datetime(),
  })
  .openapi("Order", {
    example: {
      id: "ord_0192f3a0-0000-7000-8000-000000000002",
      status: "pending",
      currency: "EUR",
      total: 2500,
      reference: "basket-17",
      items: [
        {
          product_id: "prod_0192f3a0-0000-7000-8000-000000000001",
          name: "Mug",
          unit_price: 1250,
          quantity: 2,
          subtotal: 2500,
        },
      ],
      created_at: "2026-01-01T12:00:00.000Z",
    },
  });

type OrderRow = Omit<typeof orders.$inferSelect, "updatedAt">;
export type OrderItemRow = typeof orderItems.$inferSelect;

export function orderToWire(
  order: OrderRow,
  items: readonly OrderItemRow[],
): z.infer<typeof Order> {
  return {
    id: order.id,
    status: order.status,
    currency: order.currency,
    total: order.total,
    reference: order.reference,
    items: items.map((item) => ({
      product_id: item.productId,
      name: item.name,
      unit_price: item.unitPrice,
      quantity: item.quantity,
      subtotal: item.unitPrice * item.quantity,
    })),
    created_at: timestamp(order.createdAt),
  };
}
