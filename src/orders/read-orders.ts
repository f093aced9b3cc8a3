import { type RouteHandler, z } from "@hono/zod-openapi";
import { and, asc, desc, eq, inArray, lt } from "drizzle-orm";

import type { Database } from "../idempotency/ledger.ts";
import { orNotFound } from "../problem-answers.ts";
import { ById, pageFrom, pageOf, pageQuery, readRoute } from "../routes.ts";
import type { AppEnv } from "../scope.ts";
import { Order, orderToWire } from "./order.ts";
import { ORDER_STATUSES, orderItems, orders } from "./schema.ts";

const OrdersQuery = pageQuery("ord").extend({ status: z.enum(ORDER_STATUSES).optional() });

export const listOrdersRoute = readRoute({
  path: "/orders",
  summary: "List orders, newest first",
  query: OrdersQuery,
  wire: pageOf(Order),
});

export const listOrders: RouteHandler<typeof listOrdersRoute, AppEnv> = async (c) => {
  const { db, principal } = c.var;
  const { limit, starting_after: before, status } = c.req.valid("query");
  const isWanted = and(
    eq(orders.accountId, principal),
    status === undefined ? undefined : eq(orders.status, status),
    before === undefined ? undefined : lt(orders.id, before),
  );
  const orderRows = db
    .select()
    .from(orders)
    .where(isWanted)
    .orderBy(desc(orders.id))
    .limit(limit + 1);
  const idsOfPage = db
    .select({ id: orders.id })
    .from(orders)
    .where(isWanted)
    .orderBy(desc(orders.id))
    .limit(limit);
  const [found, items] = await db.batch([
    orderRows,
    db
      .select()
      .from(orderItems)
      .where(inArray(orderItems.orderId, idsOfPage))
      .orderBy(asc(orderItems.orderId), asc(orderItems.position)),
  ]);
  const itemsOf = Map.groupBy(items, (item) => item.orderId);
  const page = found.map((order) => orderToWire(order, itemsOf.get(order.id) ?? []));
  return c.json(pageFrom(page, limit), 200);
};

export const getOrderRoute = readRoute({
  path: "/orders/{id}",
  summary: "Read an order",
  params: ById,
  wire: Order,
});

export const getOrder: RouteHandler<typeof getOrderRoute, AppEnv> = async (c) => {
  const { db, principal } = c.var;
  const { id } = c.req.valid("param");
  const [found, items] = await db.batch([selectOrder(db, principal, id), selectItems(db, id)]);
  return c.json(orNotFound(found.map((order) => orderToWire(order, items))[0]), 200);
};

/** The order, if it is this account's. Its items say nothing of the account: use them only when the order is found. */
export function selectOrder(db: Database, principal: string, id: string) {
  return db
    .select()
    .from(orders)
    .where(and(eq(orders.accountId, principal), eq(orders.id, id)));
}

export function selectItems(db: Database, orderId: string) {
  return db
    .select()
    .from(orderItems)
    .where(eq(orderItems.orderId, orderId))
    .orderBy(asc(orderItems.position));
}
