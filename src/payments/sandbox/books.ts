import type { Params } from "./form.ts";

/** Most records that one question is answered with. */
const MAX_RECORDS = 1_000;
const DEFAULT_RECORDS = 100;

/** Newest first. `before` is the `seq` of the last record of the page before. */
export interface PageQuery {
  limit?: number | undefined;
  before?: number | undefined;
}

export type ChargeRecord = {
  seq: number;
  id: string;
  paymentIntent: string;
  /** From the intent's metadata: whose charge the shop says it is. */
  paymentId: string | null;
  /** Minor units. */
  amount: number;
  amountRefunded: number;
  /** Lower case, as on Stripe's wire. */
  currency: string;
  status: "succeeded" | "failed";
  paymentMethod: string;
  failureCode: string | null;
  idempotencyKey: string | null;
  createdAt: number;
};

export type RefundRecord = {
  seq: number;
  id: string;
  charge: string;
  paymentIntent: string;
  /** From the refund's metadata, as the payment's. */
  refundId: string | null;
  paymentId: string | null;
  amount: number;
  currency: string;
  idempotencyKey: string | null;
  createdAt: number;
};

export interface CallRecord {
  seq: number;
  requestId: string;
  method: string;
  path: string;
  idempotencyKey: string | null;
  /** Without secrets: of a parameter that the sandbox does not know, only the name is kept. */
  params: Params;
  /** Null while it is under way, or when the object died under it. */
  status: number | null;
  isReplayed: boolean;
  /** The answer was made and stored, and then dropped. */
  isReplyLost: boolean;
  receivedAt: number;
}

export interface Totals {
  charges: number;
  declined: number;
  refunds: number;
  /** Minor units, by currency. */
  captured: Record<string, number>;
  refunded: Record<string, number>;
}

const CHARGE_COLUMNS = `seq, id, payment_intent AS paymentIntent, metadata ->> 'payment_id' AS paymentId, amount,
  amount_refunded AS amountRefunded, currency, status, payment_method AS paymentMethod, failure_code AS failureCode,
  idempotency_key AS idempotencyKey, created_at AS createdAt`;

export function listCharges(sql: SqlStorage, query?: PageQuery): ChargeRecord[] {
  const page = `SELECT ${CHARGE_COLUMNS} FROM charges WHERE seq < ? ORDER BY seq DESC LIMIT ?`;
  return sql.exec<ChargeRecord>(page, ...pageOf(query)).toArray();
}

/** Oldest first, failed ones too. */
export function listChargesOf(sql: SqlStorage, paymentId: string): ChargeRecord[] {
  const charges = `SELECT ${CHARGE_COLUMNS} FROM charges WHERE metadata ->> 'payment_id' = ? ORDER BY seq LIMIT ?`;
  return sql.exec<ChargeRecord>(charges, paymentId, MAX_RECORDS).toArray();
}

export function listRefundRecords(sql: SqlStorage, query?: PageQuery): RefundRecord[] {
  const page = `SELECT seq, id, charge, payment_intent AS paymentIntent, metadata ->> 'refund_id' AS refundId,
      metadata ->> 'payment_id' AS paymentId, amount, currency, idempotency_key AS idempotencyKey,
      created_at AS createdAt
    FROM refunds WHERE seq < ? ORDER BY seq DESC LIMIT ?`;
  return sql.exec<RefundRecord>(page, ...pageOf(query)).toArray();
}

type CallRow = {
  seq: number;
  request_id: string;
  method: string;
  path: string;
  idempotency_key: string | null;
  params: string;
  status: number | null;
  is_replayed: number;
  is_reply_lost: number;
  received_at: number;
};

export function listCalls(sql: SqlStorage, query?: PageQuery): CallRecord[] {
  const page = "SELECT * FROM calls WHERE seq < ? ORDER BY seq DESC LIMIT ?";
  const rows = sql.exec<CallRow>(page, ...pageOf(query)).toArray();
  return rows.map((row) => ({
    seq: row.seq,
    requestId: row.request_id,
    method: row.method,
    path: row.path,
    idempotencyKey: row.idempotency_key,
    params: JSON.parse(row.params),
    status: row.status,
    isReplayed: row.is_replayed === 1,
    isReplyLost: row.is_reply_lost === 1,
    receivedAt: row.received_at,
  }));
}

export function totalsOf(sql: SqlStorage): Totals {
  const totals: Totals = { charges: 0, declined: 0, refunds: 0, captured: {}, refunded: {} };
  const charges = sql.exec<{ currency: string; status: string; n: number; sum: number }>(
    "SELECT currency, status, count(*) AS n, sum(amount) AS sum FROM charges GROUP BY currency, status",
  );
  for (const { currency, status, n, sum } of charges) {
    if (status === "failed") totals.declined += n;
    else {
      totals.charges += n;
      totals.captured[currency] = sum;
    }
  }
  const refunds = sql.exec<{ currency: string; n: number; sum: number }>(
    "SELECT currency, count(*) AS n, sum(amount) AS sum FROM refunds GROUP BY currency",
  );
  for (const { currency, n, sum } of refunds) {
    totals.refunds += n;
    totals.refunded[currency] = sum;
  }
  return totals;
}

function pageOf({ limit, before = Number.MAX_SAFE_INTEGER }: PageQuery = {}): [number, number] {
  return [before, bounded(limit)];
}

/** Between 1 and the most that is ever returned; the usual number when none is asked for. */
export function bounded(limit = DEFAULT_RECORDS): number {
  return Math.min(Math.max(Math.trunc(limit), 1), MAX_RECORDS);
}
