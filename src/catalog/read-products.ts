import { and, desc, eq, lt } from "drizzle-orm";

import type { Database } from "../idempotency/ledger.ts";
import { ById, PageQuery, pageOf, readRoute } from "../routes.ts";
import { Product, productToWire } from "./product.ts";
import { products } from "./schema.ts";

export const listProductsRoute = readRoute({
  path: "/products",
  summary: "List the catalogue, newest first",
  query: PageQuery,
  wire: pageOf(Product),
});

export async function listProducts(
  db: Database,
  principal: string,
  { limit, starting_after: before }: { limit: number; starting_after?: string | undefined },
) {
  const rows = await db
    .select()
    .from(products)
    .where(
      and(
        eq(products.accountId, principal),
        before === undefined ? undefined : lt(products.id, before),
      ),
    )
    .orderBy(desc(products.id))
    .limit(limit + 1);
  return { data: rows.slice(0, limit).map(productToWire), has_more: rows.length > limit };
}

export const getProductRoute = readRoute({
  path: "/products/{id}",
  summary: "Read a product",
  params: ById,
  wire: Product,
});

export async function getProduct(db: Database, principal: string, id: string) {
  const rows = await db
    .select()
    .from(products)
    .where(and(eq(products.accountId, principal), eq(products.id, id)));
  return rows.map(productToWire)[0];
}
