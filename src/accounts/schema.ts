import { sqliteTable, text, integer } from "drizzle-orm/sqlite-core";

/** Who may call, and whose idempotency keys are whose. Ids are `acct_` and a uuid v7; times are epoch ms. */
export const accounts = sqliteTable("accounts", {
  id: text("id").primaryKey(),
  name: text("name").notNull(),
  /** SHA-256 of the API key, hex. The key itself is shown once, to its holder, and not kept. */
  apiKeySha256: text("api_key_sha256").notNull().unique("accounts_api_key_sha256"),
  createdAt: integer("created_at").notNull(),
});
