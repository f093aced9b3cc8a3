import type { Database, Statement } from "./database.ts";
import { isFenced, type Message } from "./message.ts";

interface Row {
  principal: string;
  key: string;
  generation: number;
  owner: string;
  fingerprint: string;
  status: "pending" | "completed" | "released";
  /** The stored response. */
  response: string;
  updatedAt: number;
  expiresAt: number;
}

const ROWS = `SELECT principal, key, generation, owner, fingerprint, status, updated_at AS updatedAt,
  expires_at AS expiresAt, response_status || response_headers || coalesce(response_body, '') AS response
  FROM idempotency_keys`;

const BEGINS = /^insert into "(payments|refunds)"/;

/**
 * Looks at the ledger after every message, for what no answer at the end would show.
 *
 * `evictions` counts the rows that went when their time had come: a key that is used after that is a new one.
 */
export function openWatch(database: Database, { pendingTtlMs }: { pendingTtlMs: number }) {
  let before = rowsOf(database);
  const violations: string[] = [];
  let evictions = 0;
  let takeovers = 0;

  /**
   * @param message What was carried out just now.
   * @param at The clock.
   * @param claimableSince When its sender had the whole request, and could claim. Null for a message from the past.
   * @param isOfReconciler Whether nobody has asked for it.
   */
  function look(
    message: Message,
    {
      at,
      claimableSince,
      isOfReconciler,
    }: { at: number; claimableSince: number | null; isOfReconciler: boolean },
  ): void {
    if (message.to !== "d1") return;
    if (isOfReconciler && message.statements.some(({ sql }) => BEGINS.test(sql))) {
      violations.push("5. the reconciler began a payment or refund of its own");
    }
    if (isFenced(message)) checkFence(message.statements[0]!.params);
    const now = rowsOf(database);
    const isLeased = (row: Row) => row.status === "pending" && row.updatedAt + pendingTtlMs > at;
    for (const [id, was] of before) {
      const is = now.get(id);
      if (is === undefined) {
        const isDue = was.expiresAt < at && !isLeased(was);
        if (isDue) evictions += 1;
        else violations.push("8. a claimed key was deleted before its window had ended");
      } else if (was.status === "completed" && JSON.stringify(is) !== JSON.stringify(was)) {
        violations.push("2. a completed key was changed");
      } else if (is.fingerprint !== was.fingerprint) {
        violations.push("1. a key came to name another request");
      } else if (is.generation > was.generation) {
        takeovers += 1;
        // To a claim that was sent before this lease began, the lease comes from a clock that is ahead.
        const isFromBefore = is.updatedAt < was.updatedAt;
        if (isLeased(was) && !isFromBefore) {
          violations.push("9. a claim was taken over within its lease");
        }
      }
    }
    for (const [id, is] of now) {
      const isNewClaim = is.status === "pending" && before.get(id)?.owner !== is.owner;
      if (isNewClaim && is.updatedAt < (claimableSince ?? 0)) {
        violations.push("9. a claim was born stale");
      }
    }
    before = now;
  }

  /** A fence that let its batch pass must have stood for the claim as it was. */
  function checkFence([principal, key, owner, , generation]: Statement["params"]): void {
    const was = before.get(`${principal as string} ${key as string}`);
    const isHeld =
      was?.status === "pending" && was.owner === owner && was.generation === generation;
    if (!isHeld) violations.push("3. what a superseded owner had to write was committed");
  }

  return {
    look,
    rows: () => [...before.values()],
    evictions: () => evictions,
    takeovers: () => takeovers,
    violations: () => violations,
  };
}

function rowsOf(database: Database): Map<string, Row> {
  const rows = database.read<Row>(ROWS);
  return new Map(rows.map((row) => [`${row.principal} ${row.key}`, row]));
}
