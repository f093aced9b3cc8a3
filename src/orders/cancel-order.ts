import { eq } from "drizzle-orm";

import { moveStock } from "../catalog/move-stock.ts";
import { mutation } from "../idempotency/mutation.ts";
import { selectPaymentsOf } from "../payments/read-payments.ts";
import { refuse } from "../problem.ts";
import { ById, keyedRoute } from "../routes.ts";
import { ok } from "../wire.ts";
import { Order, orderToWire } from "./order.ts";
import { orders } from "./schema.ts";
import { selectItems, selectOrder } from "./read-orders.ts";

const cancelOrderRoute = keyedRoute({
  path: "/orders/{id}/cancel",
  summary: "Cancel a pending order and return its stock",
  params: ById,
  status: 200,
  wire: Order,
  problems: ["order_not_cancellable"],
});

export const cancelOrder = mutation(cancelOrderRoute, {
  reads: ({ db, principal, params }) => [
    selectOrder(db, principal, params.id),
    selectItems(db, params.id),
    selectPaymentsOf(db, params.id),
  ],
  run: ({ db, params, reads: [found, items, payments], now, requestId }) => {
    const order = found[0];
    if (order === undefined) return refuse(requestId, "not_found");
    if (order.status !== "pending") {
      return refuse(requestId, "order_not_cancellable", { order_status: order.status });
    }
    if (payments.some(({ status }) => status === "processing")) {
      const detail = "Somebody is paying for the order: cancel it once the payment has failed.";
      return refuse(requestId, "order_not_cancellable", { detail, order_status: order.status });
    }
    const cancelled = { ...order, status: "cancelled" as const };
    return {
      kind: "decided",
      response: ok(orderToWire(cancelled, items)),
      writes: [
        // Should another key have cancelled or begun to pay it meanwhile, a trigger aborts the whole batch.
        db
          .update(orders)
          .set({ status: "cancelled", updatedAt: now })
          .where(eq(orders.id, params.id)),
        moveStock(db, items, "return"),
      ],
    };
  },
});
