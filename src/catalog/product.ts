import { z } from "@hono/zod-openapi";

import { Currency, Money, timestamp } from "../wire.ts";
import type { products } from "./schema.ts";

export const Product = z
  .object({
    id: z.string(),
    sku: z.string(),
    name: z.string(),
    unit_price: Money.describe("Integer minor units of `currency`."),
    currency: Currency,
    stock: z.int().describe("What is left to sell."),
    created_at: z.iso.datetime(),
  })
  .openapi("Product", {
    example: {
      id: "prod_0192f3a0-0000-7000-8000-000000000001",
      sku: "MUG-01",
      name: "Mug",
      unit_price: 1250,
      currency: "EUR",
      stock: 100,
      created_at: "2026-01-01T12:00:00.000Z",
    },
  });

export function productToWire(row: typeof products.$inferSelect): z.infer<typeof Product> {
  return {
    id: row.id,
    sku: row.sku,
    name: row.name,
    unit_price: row.unitPrice,
    currency: row.currency,
    stock: row.stock,
    created_at: timestamp(row.createdAt),
  };
}
