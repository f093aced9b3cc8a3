import { sql } from "drizzle-orm";

import type { Database } from "../idempotency/ledger.ts";
import { products } from "./schema.ts";

/** Takes an order's quantities from the shelf, or puts them back: one statement, whatever the number of products. */
export function moveStock(
  db: Database,
  lines: readonly { productId: string; quantity: number }[],
  direction: "reserve" | "return",
) {
  const sign = direction === "reserve" ? -1 : 1;
  const moves = lines.map((line) => ({ id: line.productId, delta: sign * line.quantity }));
  return db
    .update(products)
    .set({ stock: sql`${products.stock} + (line.value ->> '$.delta')` })
    .from(sql`json_each(${JSON.stringify(moves)}) AS line`)
    .where(sql`${products.id} = line.value ->> '$.id'`);
}

/** Lists travel as one JSON parameter: D1 binds at most 100, and the statement count must not grow with the order. */
export function productIdIsIn(ids: readonly string[]) {
  return sql`${products.id} IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`;
}
