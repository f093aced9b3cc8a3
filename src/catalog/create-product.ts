import { z } from "@hono/zod-openapi";
import { and, eq } from "drizzle-orm";

import { mutation } from "../idempotency/mutation.ts";
import { refuse } from "../problem.ts";
import { keyedRoute } from "../routes.ts";
import { created, Currency, Money, text } from "../wire.ts";
import { Product, productToWire } from "./product.ts";
import { products, stockAdjustments } from "./schema.ts";

/** An order of 50 products repeats 50 names, and its answer must fit the limit of stored responses. */
const MAX_NAME_BYTES = 120;
/** Keeps every sum of stock far inside what JSON numbers carry exactly. */
export const MAX_STOCK = 1_000_000_000;

const CreateProductRequest = z
  .strictObject({
    sku: text(64),
    name: text(255).refine((name) => jsonBytes(name) <= MAX_NAME_BYTES, {
      error: `must take at most ${MAX_NAME_BYTES} bytes as JSON`,
    }),
    unit_price: Money,
    currency: Currency,
    stock: z.int().min(0).max(MAX_STOCK),
  })
  .openapi("CreateProductRequest", {
    example: { sku: "MUG-01", name: "Mug", unit_price: 1250, currency: "EUR", stock: 100 },
  });

function jsonBytes(value: string): number {
  return new TextEncoder().encode(JSON.stringify(value)).byteLength;
}

const createProductRoute = keyedRoute({
  path: "/products",
  summary: "Add a product to the catalogue",
  body: CreateProductRequest,
  status: 201,
  wire: Product,
  problems: ["sku_taken"],
});

export const createProduct = mutation(createProductRoute, {
  reads: ({ db, principal, body }) => [
    db
      .select({ id: products.id })
      .from(products)
      .where(and(eq(products.accountId, principal), eq(products.sku, body.sku))),
  ],
  run: ({ db, principal, body, reads: [taken], operation, now, requestId }) => {
    if (taken.length > 0)
      return refuse(requestId, "sku_taken", { detail: `SKU ${body.sku} exists.` });

    const { sku, name, currency, stock, unit_price: unitPrice } = body;
    const id = `prod_${operation.id}`;
    const product = {
      id,
      accountId: principal,
      sku,
      name,
      unitPrice,
      currency,
      stock,
      createdAt: now,
    };
    const initialStock = {
      id: `adj_${operation.id}`,
      productId: id,
      createdAt: now,
      delta: stock,
      reason: "initial stock",
    };
    return {
      kind: "decided",
      response: created(`/products/${id}`, productToWire(product)),
      writes: [
        db.insert(products).values(product),
        db.insert(stockAdjustments).values(initialStock),
      ],
    };
  },
});
