import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/**
 * One row per (principal, key): the claim while it is pending, the stored response once it is completed.
 * All times are epoch milliseconds. The migration makes the table STRICT and WITHOUT ROWID by hand.
 */
export const idempotencyKeys = sqliteTable(
  "idempotency_keys",
  {
    principal: text("principal").notNull(),
    key: text("key").notNull(),
    /** uuid v7, minted with a fresh claim and kept by takeovers: the ids of everything created derive from it. */
    operationId: text("operation_id").notNull(),
    fingerprint: text("fingerprint").notNull(),
    status: text("status", { enum: ["pending", "completed", "released"] }).notNull(),
    /** Fencing token: 1 for a fresh claim, one more at every takeover. */
    generation: integer("generation").notNull(),
    /** Random id of the attempt that holds the claim, or that completed it. */
    owner: text("owner").notNull(),
    requestMethod: text("request_method").notNull(),
    requestPath: text("request_path").notNull(),
    responseStatus: integer("response_status"),
    /** JSON object of the allowlisted headers, for example `{"content-type": "application/json"}`. */
    responseHeaders: text("response_headers"),
    /** Exactly what was answered. NULL with a completed row means an answer without a body. */
    responseBody: text("response_body"),
    createdAt: integer("created_at").notNull(),
    /**
     * While pending, the start of the lease: the claim is stale once the pending TTL has passed since then, and 0 says
     * that the lease was given up. Afterwards, when it was completed.
     */
    updatedAt: integer("updated_at").notNull(),
    /** End of the retention window. A row lives at least this long, and until a sweep reaches it. */
    expiresAt: integer("expires_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.principal, table.key] }),
    index("idempotency_keys_expires_at").on(table.expiresAt),
    check("idempotency_keys_status", sql`${table.status} IN ('pending', 'completed', 'released')`),
    check("idempotency_keys_generation", sql`${table.generation} >= 1`),
    check(
      "idempotency_keys_response",
      sql`(${table.status} = 'completed') = (${table.responseStatus} IS NOT NULL)`,
    ),
  ],
);

/**
 * No row can ever be in this table. A commit inserts one only if its claim is lost, so the constraint aborts the
 * whole batch, and its name tells a lost fence from every other failure.
 */
export const idempotencyFence = sqliteTable(
  "idempotency_fence",
  { lost: integer("lost").notNull() },
  () => [check("idempotency_fence_lost", sql`0`)],
);

/**
 * What the rows of the ledger do not tell, or not cheaply: one row, made by the migration. An isolate's memory is one of
 * many and short-lived, so everything that is counted is counted here.
 */
export const ledgerFigures = sqliteTable(
  "ledger_figures",
  {
    id: integer("id").primaryKey(),
    /** Rows ever evicted, by a request's sweep or the cron's. Booked in the batch that deletes them. */
    evicted: integer("evicted").notNull().default(0),
    /** When the latest one to be completed of the rows ever evicted was completed; 0 while there is none. */
    newestEvictedAt: integer("newest_evicted_at").notNull().default(0),
    /** Claims ever taken over. A trigger counts them in the statement that raises the generation. */
    takeovers: integer("takeovers").notNull().default(0),
    /** Commits and checkpoints ever refused because the claim had been taken over. */
    fencedOut: integer("fenced_out").notNull().default(0),
    /** When the rows were last counted; null before the first time. The columns below are of then. */
    countedAt: integer("counted_at"),
    pending: integer("pending").notNull().default(0),
    completed: integer("completed").notNull().default(0),
    released: integer("released").notNull().default(0),
    /** Of the pending rows, those whose lease is long over and that nobody came back to. */
    orphaned: integer("orphaned").notNull().default(0),
    /** Of all rows, those whose window has ended. */
    expired: integer("expired").notNull().default(0),
  },
  (table) => [check("ledger_figures_one_row", sql`${table.id} = 1`)],
);

/** The cron's sweeps, numbered as they begin. Only the latest are kept. */
export const sweepRuns = sqliteTable("sweep_runs", {
  id: integer("id").primaryKey(),
  startedAt: integer("started_at").notNull(),
  /** Null while it is running, and for good if it broke off. */
  endedAt: integer("ended_at"),
  evicted: integer("evicted").notNull().default(0),
  batches: integer("batches").notNull().default(0),
  /** Whether it found the end of what had expired. Null until it has ended, as the lag. */
  isCaughtUp: integer("is_caught_up", { mode: "boolean" }),
  /** Age of the oldest expired row that it left, ms. */
  lagMs: integer("lag_ms"),
});

export type LedgerRow = typeof idempotencyKeys.$inferSelect;
