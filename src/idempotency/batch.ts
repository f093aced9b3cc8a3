import { DrizzleQueryError } from "drizzle-orm";
import type { BatchItem, BatchResponse } from "drizzle-orm/batch";
import type { DrizzleD1Database } from "drizzle-orm/d1";

/**
 * What a failed D1 batch says about its writes.
 *
 * - `constraint`: rolled back, for certain. `name` is what SQLite reports: `idempotency_fence_lost`,
 *   `products_stock_not_negative`, `products.account_id, products.sku`, or a trigger's message.
 * - `overloaded`: D1 turned the batch away before it ran.
 * - `ambiguous`: everything else. The batch may have committed and only its answer been lost.
 */
export type D1Failure =
  | { kind: "constraint"; name: string; error: unknown }
  | { kind: "overloaded"; error: unknown }
  | { kind: "ambiguous"; error: unknown };

// Transient faults of D1 are over within one or two tries; past that the caller is better placed to wait.
const MAX_SENDS = 3;
const RESEND_PAUSE_MS = 25;
/**
 * Sends statements as one `batch()`: one round trip, one transaction.
 *
 * @throws when SQLite cannot carry a statement out at all: no such table, too many variables. Nothing was written, and
 *   sending it again would not help.
 */
export async function sendBatch<const Statements extends readonly BatchItem<"sqlite">[]>(
  db: DrizzleD1Database,
  statements: Statements,
): Promise<{ kind: "done"; results: BatchResponse<Statements> } | D1Failure> {
  try {
    const results = await db.batch(statements as unknown as [BatchItem<"sqlite">]);
    return { kind: "done", results: results as unknown as BatchResponse<Statements> };
  } catch (error) {
    if (BUG.test(driverMessage(error))) throw error;
    return classifyD1Failure(error);
  }
}

/** Sends again while the answer is lost. A claim knows its own row and the fence stops a second commit. */
export async function untilDefinite<Sent extends { kind: string }>(
  { sleep }: { sleep: (ms: number) => Promise<void> },
  send: () => Promise<Sent>,
): Promise<Sent> {
  for (let tries = 1; ; tries++) {
    const sent = await send();
    if (sent.kind !== "ambiguous" || tries === MAX_SENDS) return sent;
    await sleep(RESEND_PAUSE_MS * tries);
  }
}

// `D1_ERROR: CHECK constraint failed: NAME: SQLITE_CONSTRAINT (extended: …)`; a trigger's RAISE has its message alone.
const CONSTRAINT =
  /^(?:D1_ERROR: )?(?:(?:CHECK|UNIQUE|NOT NULL|FOREIGN KEY) constraint failed(?:: )?)?(.*?)(?:: )?SQLITE_CONSTRAINT/;
// Not the database's state but the statement is at fault.
const BUG = /SQLITE_(?:ERROR|TOOBIG|MISMATCH|RANGE)\b/;
// https://developers.cloudflare.com/d1/observability/debug-d1/ lists these as refused before they run.
const OVERLOADED = /too many requests queued|requests queued for too long/i;

export function classifyD1Failure(error: unknown): D1Failure {
  const message = driverMessage(error);
  const constraint = CONSTRAINT.exec(message);
  if (constraint !== null) return { kind: "constraint", name: constraint[1]!, error };
  return { kind: OVERLOADED.test(message) ? "overloaded" : "ambiguous", error };
}

/** What SQLite or D1 said. Drizzle's own message holds the bound values, which could say anything. */
function driverMessage(error: unknown): string {
  const fromD1 = error instanceof DrizzleQueryError ? error.cause : error;
  return fromD1 instanceof Error ? fromD1.message : String(fromD1);
}

/**
 * D1 answers a batch with objects, so two selected columns of one name collapse and every later value moves up. The
 * mapped row then ends in values that no database returns, which is how the loss is noticed.
 *
 * @throws when a row lost a column.
 */
export function assertNoColumnLost(results: readonly unknown[]): void {
  const rows = results.filter((result) => Array.isArray(result)).flat();
  for (const value of rows.flatMap((row) => Object.values(row))) {
    const isNested = typeof value === "object" && value !== null;
    if (isNested ? Object.values(value).some(isNoValue) : isNoValue(value)) {
      throw new Error("bug: a query in a batch selects two columns of one name");
    }
  }
}

function isNoValue(value: unknown): boolean {
  return value === undefined || Number.isNaN(value);
}
