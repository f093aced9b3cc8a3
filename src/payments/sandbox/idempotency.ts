import { first } from "./storage.ts";

/** How long a result is kept, as long as Stripe keeps its own at least, ms. */
const RETENTION_MS = 24 * 60 * 60 * 1000;
/** Stripe's limit on a key. */
export const MAX_KEY_CHARS = 255;
/** Results deleted with each one that is kept: more than one, so that the table shrinks again. */
const SWEEP_BATCH_SIZE = 10;

export type StoredResult = {
  fingerprint: string;
  request_id: string;
  status: number;
  body: string;
};

export type Begun =
  | { kind: "execute" }
  | { kind: "replay"; result: StoredResult }
  | { kind: "reused" }
  | { kind: "in_use" };

export type Keys = ReturnType<typeof openKeys>;

/**
 * Idempotency keys as Stripe documents them: https://docs.stripe.com/api/idempotent_requests
 *
 * What is under way is known in memory alone. A result is stored in one transaction with its effects, so an object that
 * dies half-way leaves neither, and the next try under the key executes afresh.
 */
export function openKeys(sql: SqlStorage) {
  const underWay = new Map<string, string>();
  return {
    begin(key: string, { fingerprint, now }: { fingerprint: string; now: number }): Begun {
      const rows = sql.exec<StoredResult>(
        "SELECT fingerprint, request_id, status, body FROM idempotency_results WHERE key = ? AND created_at > ?",
        key,
        now - RETENTION_MS,
      );
      const result = first(rows);
      const known = result?.fingerprint ?? underWay.get(key);
      if (known !== undefined && known !== fingerprint) return { kind: "reused" };
      if (result !== null) return { kind: "replay", result };
      if (known !== undefined) return { kind: "in_use" };
      underWay.set(key, fingerprint);
      return { kind: "execute" };
    },

    /** To be called in the transaction that has the effects. */
    keep(key: string, result: StoredResult & { now: number }): void {
      sql.exec(
        "INSERT OR REPLACE INTO idempotency_results VALUES (?, ?, ?, ?, ?, ?)",
        key,
        result.fingerprint,
        result.request_id,
        result.status,
        result.body,
        result.now,
      );
      sql.exec(
        `DELETE FROM idempotency_results WHERE key IN
         (SELECT key FROM idempotency_results WHERE created_at <= ? ORDER BY created_at LIMIT ?)`,
        result.now - RETENTION_MS,
        SWEEP_BATCH_SIZE,
      );
    },

    end(key: string): void {
      underWay.delete(key);
    },

    /** True the first time that a key is asked about, and never again. */
    isFirstSight(key: string): boolean {
      const { rowsWritten } = sql.exec("INSERT OR IGNORE INTO turned_away VALUES (?)", key);
      return rowsWritten > 0;
    },
  };
}
