import type { Stripe } from "stripe";

/** Times are epoch ms, amounts integer minor units, metadata JSON objects of strings. */
export type IntentRow = {
  id: string;
  amount: number;
  currency: string;
  status: "requires_payment_method" | "requires_confirmation" | "succeeded";
  payment_method: string | null;
  latest_charge: string | null;
  /** JSON, as on Stripe's wire. */
  last_payment_error: string | null;
  metadata: string;
  client_secret: string;
  created_at: number;
};

export type ChargeRow = {
  id: string;
  payment_intent: string;
  amount: number;
  amount_refunded: number;
  currency: string;
  status: "succeeded" | "failed";
  payment_method: string;
  failure_code: string | null;
  failure_message: string | null;
  metadata: string;
  idempotency_key: string | null;
  created_at: number;
};

export type RefundRow = {
  id: string;
  charge: string;
  payment_intent: string;
  amount: number;
  currency: string;
  status: "succeeded";
  reason: Stripe.Refund.Reason | null;
  metadata: string;
  idempotency_key: string | null;
  created_at: number;
};

// `seq` orders what was made within one millisecond. The CHECK is the referee: no mistake above it can refund more than
// was charged.
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS payment_intents (
    id TEXT PRIMARY KEY, amount INTEGER NOT NULL, currency TEXT NOT NULL, status TEXT NOT NULL, payment_method TEXT,
    latest_charge TEXT, last_payment_error TEXT, metadata TEXT NOT NULL, client_secret TEXT NOT NULL,
    created_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS charges (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, payment_intent TEXT NOT NULL,
    amount INTEGER NOT NULL, amount_refunded INTEGER NOT NULL, currency TEXT NOT NULL, status TEXT NOT NULL,
    payment_method TEXT NOT NULL, failure_code TEXT, failure_message TEXT, metadata TEXT NOT NULL,
    idempotency_key TEXT, created_at INTEGER NOT NULL,
    CONSTRAINT charges_refunded_within_amount CHECK (amount_refunded BETWEEN 0 AND amount)
  ) STRICT;
  CREATE UNIQUE INDEX IF NOT EXISTS charges_one_success ON charges (payment_intent) WHERE status = 'succeeded';
  CREATE INDEX IF NOT EXISTS charges_of_payment ON charges (metadata ->> 'payment_id');
  CREATE TABLE IF NOT EXISTS refunds (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, charge TEXT NOT NULL, payment_intent TEXT NOT NULL,
    amount INTEGER NOT NULL, currency TEXT NOT NULL, status TEXT NOT NULL, reason TEXT, metadata TEXT NOT NULL,
    idempotency_key TEXT, created_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS refunds_of_intent ON refunds (payment_intent);
  CREATE TABLE IF NOT EXISTS idempotency_results (
    key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, request_id TEXT NOT NULL, status INTEGER NOT NULL,
    body TEXT NOT NULL, created_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS idempotency_results_age ON idempotency_results (created_at);
  CREATE TABLE IF NOT EXISTS turned_away (key TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS calls (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, request_id TEXT NOT NULL UNIQUE, method TEXT NOT NULL, path TEXT NOT NULL,
    idempotency_key TEXT, params TEXT NOT NULL, status INTEGER, is_replayed INTEGER NOT NULL DEFAULT 0,
    is_reply_lost INTEGER NOT NULL DEFAULT 0, received_at INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, payload TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, next_attempt_at INTEGER, delivered_at INTEGER, created_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS events_due ON events (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
`;

export function createTables(sql: SqlStorage): void {
  sql.exec(SCHEMA);
}

type Row = Record<string, SqlStorageValue>;
type Table = "payment_intents" | "charges" | "refunds" | "calls" | "events";

export function insert(sql: SqlStorage, table: Table, row: Row): void {
  const names = Object.keys(row);
  const values = names.map(() => "?");
  sql.exec(
    `INSERT INTO ${table} (${names.join()}) VALUES (${values.join()})`,
    ...Object.values(row),
  );
}

/** The one row that a query finds. Null when it finds none. */
export function first<R extends Row>(rows: SqlStorageCursor<R>): R | null {
  return rows.toArray()[0] ?? null;
}

export function findIntent(sql: SqlStorage, id: string): IntentRow | null {
  return first(sql.exec<IntentRow>("SELECT * FROM payment_intents WHERE id = ?", id));
}

export function findCharge(sql: SqlStorage, id: string): ChargeRow | null {
  return first(sql.exec<ChargeRow>("SELECT * FROM charges WHERE id = ?", id));
}
