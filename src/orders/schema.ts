import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

import { accounts } from "../accounts/schema.ts";
import { products } from "../catalog/schema.ts";

export const ORDER_STATUSES = [
  "pending",
  "paid",
  "partially_refunded",
  "refunded",
  "cancelled",
] as const;

/** Triggers in the migrations allow pending → paid → partially_refunded → refunded, and pending → cancelled, only. */
export const orders = sqliteTable(
  "orders",
  {
    /** `ord_` and the id of the operation that placed it. */
    id: text("id").primaryKey(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    status: text("status", { enum: ORDER_STATUSES }).notNull(),
    currency: text("currency").notNull(),
    /** Integer minor units. */
    total: integer("total").notNull(),
    /** The caller's own name for the order. */
    reference: text("reference"),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (table) => [
    index("orders_account").on(table.accountId, table.id),
    check(
      "orders_status",
      sql.raw(`status IN (${ORDER_STATUSES.map((s) => `'${s}'`).join(", ")})`),
    ),
    check("orders_total_not_negative", sql`${table.total} >= 0`),
  ],
);

/** One row per product of an order, with the name and price at which it was sold. */
export const orderItems = sqliteTable(
  "order_items",
  {
    orderId: text("order_id")
      .notNull()
      .references(() => orders.id),
    /** The line's place in the order, from 0. */
    position: integer("position").notNull(),
    productId: text("product_id")
      .notNull()
      .references(() => products.id),
    name: text("name").notNull(),
    unitPrice: integer("unit_price").notNull(),
    quantity: integer("quantity").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.orderId, table.position] }),
    check("order_items_quantity_positive", sql`${table.quantity} > 0`),
  ],
);
