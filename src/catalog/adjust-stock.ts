import { z } from "@hono/zod-openapi";
import { and, eq, sql } from "drizzle-orm";

import { mutation } from "../idempotency/mutation.ts";
import { refuse } from "../problem.ts";
import { ById, keyedRoute } from "../routes.ts";
import { created, text, timestamp } from "../wire.ts";
import { MAX_STOCK } from "./create-product.ts";
import { products, stockAdjustments } from "./schema.ts";

const AdjustStockRequest = z
  .strictObject({
    delta: z
      .int()
      .min(-MAX_STOCK)
      .max(MAX_STOCK)
      .refine((delta) => delta !== 0, { error: "must not be 0" }),
    reason: text(255).optional(),
  })
  .openapi("AdjustStockRequest", { example: { delta: 25, reason: "delivery" } });

const StockAdjustment = z
  .object({
    id: z.string(),
    product_id: z.string(),
    delta: z.int(),
    reason: z.string().nullable(),
    created_at: z.iso.datetime(),
  })
  .openapi("StockAdjustment", {
    example: {
      id: "adj_0192f3a0-0000-7000-8000-000000000005",
      product_id: "prod_0192f3a0-0000-7000-8000-000000000001",
      delta: 25,
      reason: "delivery",
      created_at: "2026-01-01T12:00:00.000Z",
    },
  });

const adjustStockRoute = keyedRoute({
  path: "/products/{id}/stock-adjustments",
  summary: "Add to a product's stock, or take from it",
  params: ById,
  body: AdjustStockRequest,
  status: 201,
  wire: StockAdjustment,
  problems: ["insufficient_stock"],
});

export const adjustStock = mutation(adjustStockRoute, {
  reads: ({ db, principal, params }) => [
    db
      .select({ stock: products.stock })
      .from(products)
      .where(and(eq(products.accountId, principal), eq(products.id, params.id))),
  ],
  run: ({ db, body, params, reads: [found], operation, now, requestId }) => {
    const product = found[0];
    if (product === undefined) return refuse(requestId, "not_found");
    if (product.stock + body.delta < 0) {
      const shortage = { product_id: params.id, available: product.stock };
      return refuse(requestId, "insufficient_stock", { products: [shortage] });
    }
    const id = `adj_${operation.id}`;
    const { delta, reason = null } = body;
    return {
      kind: "decided",
      response: created(`/products/${params.id}`, {
        id,
        product_id: params.id,
        delta,
        reason,
        created_at: timestamp(now),
      }),
      writes: [
        db
          .update(products)
          .set({ stock: sql`${products.stock} + ${delta}` })
          .where(eq(products.id, params.id)),
        db
          .insert(stockAdjustments)
          .values({ id, productId: params.id, delta, reason, createdAt: now }),
      ],
    };
  },
});
