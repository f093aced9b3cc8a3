import type { RouteHandler } from "@hono/zod-openapi";
import { and, desc, eq, lt } from "drizzle-orm";

import type { Database } from "../idempotency/ledger.ts";
import { selectOrder } from "../orders/read-orders.ts";
import { orNotFound } from "../problem-answers.ts";
import { ById, pageFrom, pageOf, pageQuery, readRoute } from "../routes.ts";
import type { AppEnv } from "../scope.ts";
import { Payment, paymentToWire } from "./payment.ts";
import { payments, refunds } from "./schema.ts";

export const getPaymentRoute = readRoute({
  path: "/payments/{id}",
  summary: "Read a payment",
  params: ById,
  wire: Payment,
});

export const getPayment: RouteHandler<typeof getPaymentRoute, AppEnv> = async (c) => {
  const rows = await selectPayment(c.var.db, c.var.principal, c.req.valid("param").id);
  return c.json(orNotFound(rows.map(paymentToWire)[0]), 200);
};

export const listPaymentsRoute = readRoute({
  path: "/orders/{id}/payments",
  summary: "List an order's payments, newest first",
  params: ById,
  query: pageQuery("pay"),
  wire: pageOf(Payment),
});

export const listPayments: RouteHandler<typeof listPaymentsRoute, AppEnv> = async (c) => {
  const { db, principal } = c.var;
  const { id } = c.req.valid("param");
  const { limit, starting_after: before } = c.req.valid("query");
  const isOnPage = before === undefined ? undefined : lt(payments.id, before);
  const [orders, rows] = await db.batch([
    selectOrder(db, principal, id),
    db
      .select()
      .from(payments)
      .where(and(eq(payments.orderId, id), isOnPage))
      .orderBy(desc(payments.id))
      .limit(limit + 1),
  ]);
  orNotFound(orders[0]);
  return c.json(pageFrom(rows.map(paymentToWire), limit), 200);
};

export function selectPayment(db: Database, principal: string, id: string) {
  return db
    .select()
    .from(payments)
    .where(and(eq(payments.accountId, principal), eq(payments.id, id)));
}

export function selectPaymentsOf(db: Database, orderId: string) {
  return db.select().from(payments).where(eq(payments.orderId, orderId));
}

export function selectRefundsOf(db: Database, paymentId: string) {
  return db.select().from(refunds).where(eq(refunds.paymentId, paymentId));
}
