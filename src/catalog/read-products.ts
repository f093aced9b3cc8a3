import type { RouteHandler } from "@hono/zod-openapi";
import { and, desc, eq, lt } from "drizzle-orm";

import { orNotFound } from "../problem-answers.ts";
import { ById, pageFrom, pageOf, pageQuery, readRoute } from "../routes.ts";
import type { AppEnv } from "../scope.ts";
import { Product, productToWire } from "./product.ts";
import { products } from "./schema.ts";

export const listProductsRoute = readRoute({
  path: "/products",
  summary: "List the catalogue, newest first",
  query: pageQuery("prod"),
  wire: pageOf(Product),
});

export const listProducts: RouteHandler<typeof listProductsRoute, AppEnv> = async (c) => {
  const { limit, starting_after: before } = c.req.valid("query");
  const rows = await c.var.db
    .select()
    .from(products)
    .where(
      and(
        eq(products.accountId, c.var.principal),
        before === undefined ? undefined : lt(products.id, before),
      ),
    )
    .orderBy(desc(products.id))
    .limit(limit + 1);
  return c.json(pageFrom(rows.map(productToWire), limit), 200);
};

export const getProductRoute = readRoute({
  path: "/products/{id}",
  summary: "Read a product",
  params: ById,
  wire: Product,
});

export const getProduct: RouteHandler<typeof getProductRoute, AppEnv> = async (c) => {
  const rows = await c.var.db
    .select()
    .from(products)
    .where(and(eq(products.accountId, c.var.principal), eq(products.id, c.req.valid("param").id)));
  return c.json(orNotFound(rows.map(productToWire)[0]), 200);
};
