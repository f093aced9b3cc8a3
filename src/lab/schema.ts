import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

import type { StoredResponse } from "../idempotency/decide.ts";

/**
 * What the naive endpoints remember of a key. Nothing else reads or writes it, nothing is ever deleted from it, and with
 * LAB off it stays empty.
 */
export const labKeys = sqliteTable(
  "lab_keys",
  {
    /** Each endpoint has keys of its own. */
    endpoint: text("endpoint").notNull(),
    principal: text("principal").notNull(),
    key: text("key").notNull(),
    bodySha256: text("body_sha256").notNull(),
    /** Epoch ms. */
    claimedAt: integer("claimed_at").notNull(),
    /** Null while whoever claimed the key is executing, or has died. */
    response: text("response", { mode: "json" }).$type<StoredResponse>(),
  },
  (table) => [primaryKey({ columns: [table.endpoint, table.principal, table.key] })],
);
