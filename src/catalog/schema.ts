import { sql } from "drizzle-orm";
import { check, index, integer, sqliteTable, text, unique } from "drizzle-orm/sqlite-core";

import { accounts } from "../accounts/schema.ts";

/** What an account sells. Money is integer minor units of `currency` (ISO 4217); times are epoch ms. */
export const products = sqliteTable(
  "products",
  {
    /** `prod_` and the id of the operation that created it. */
    id: text("id").primaryKey(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    sku: text("sku").notNull(),
    name: text("name").notNull(),
    unitPrice: integer("unit_price").notNull(),
    currency: text("currency").notNull(),
    /** What is left to sell: orders take from it when they are placed, not when they are paid. */
    stock: integer("stock").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    unique("products_account_sku").on(table.accountId, table.sku),
    // An order looks up its products by account and id: without it SQLite reads the account's whole catalogue.
    index("products_account").on(table.accountId, table.id),
    check("products_stock_not_negative", sql`${table.stock} >= 0`),
    check("products_unit_price_not_negative", sql`${table.unitPrice} >= 0`),
  ],
);

/**
 * Every change of stock that is not an order, the initial stock included: their sum is what orders and the shelf must
 * add up to.
 */
export const stockAdjustments = sqliteTable(
  "stock_adjustments",
  {
    /** `adj_` and the id of the operation that made it. */
    id: text("id").primaryKey(),
    productId: text("product_id")
      .notNull()
      .references(() => products.id),
    delta: integer("delta").notNull(),
    reason: text("reason"),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [index("stock_adjustments_product").on(table.productId)],
);
