import { asc, sql, type SQL } from "drizzle-orm";

import type { Counts } from "./figures.ts";
import { type Database, noLease } from "./ledger.ts";
import { idempotencyKeys, ledgerFigures } from "./schema.ts";

/** Rows per batch: some tens of milliseconds, so that foreground requests get in between. */
const CHUNK_ROWS = 20_000;
/** Two statements each, of the 1000 that an invocation may send: nine million rows, about what 10 GB hold. */
const MAX_CHUNKS = 450;
/** How long a count is kept. Reading 20 rows a second takes a third of what D1's free plan allows in a day. */
const KEPT_MS_PER_ROW = 100;
/** A ledger that large writes for more than fifty times what one count an hour costs. */
const KEPT_AT_MOST_MS = 60 * 60 * 1000;
/** A pending row is orphaned when its lease is over and as much time again has passed without a retry. */
const ORPHANED_AFTER_TTLS = 2;

/**
 * Counts the rows by status, and keeps the result for `isCountDue`. Reads every row twice, once to count it and once to
 * find the end of its chunk; writes one. Each row counts once, as it is when its chunk is read: exact up to one chunk,
 * and beyond that as exact as a count can be of what is changing meanwhile.
 */
export async function countRows(
  db: Database,
  settings: { now: number; pendingTtlMs: number; retentionMs: number },
): Promise<Counts> {
  const counts = { pending: 0, completed: 0, released: 0, orphaned: 0, expired: 0 };
  let after: Place | undefined = { principal: "", key: "" };
  for (let chunk = 1; after !== undefined; chunk++) {
    if (chunk > MAX_CHUNKS) throw new Error(`over ${MAX_CHUNKS * CHUNK_ROWS} rows to count`);
    const counted: Counted = await countChunk(db, after, settings);
    for (const name of Object.keys(counts) as (keyof typeof counts)[]) {
      counts[name] += counted.chunk[name];
    }
    after = counted.end;
  }
  const kept = { ...counts, countedAt: settings.now };
  await db.update(ledgerFigures).set(kept);
  return kept;
}

/**
 * Whether the kept count is too old. What is asked for often (Prometheus does, every 15 s) thus costs a bounded number of
 * rows read in an hour: a ledger of 100 rows is counted anew after ten seconds, one of a million after an hour.
 */
export function isCountDue(kept: Counts, now: number): boolean {
  if (kept.countedAt === null) return true;
  const rows = kept.pending + kept.completed + kept.released;
  return now - kept.countedAt >= Math.min(rows * KEPT_MS_PER_ROW, KEPT_AT_MOST_MS);
}

type Place = { principal: string; key: string };
type Counted = Awaited<ReturnType<typeof countChunk>>;

async function countChunk(
  db: Database,
  after: Place,
  { now, pendingTtlMs, retentionMs }: { now: number; pendingTtlMs: number; retentionMs: number },
) {
  const { principal, key, status, updatedAt, expiresAt } = idempotencyKeys;
  const rest = () =>
    db
      .select({ principal, key, status, updatedAt, expiresAt })
      .from(idempotencyKeys)
      .where(sql`(${principal}, ${key}) > (${after.principal}, ${after.key})`)
      .orderBy(asc(principal), asc(key));
  const chunk = rest().limit(CHUNK_ROWS).as("chunk");
  // Giving a lease up sets its start to 0, and then the window tells when the last claim was.
  const patience = ORPHANED_AFTER_TTLS * pendingTtlMs;
  const isOrphaned = sql`${chunk.status} = 'pending' AND ${noLease({ now, pendingTtlMs: patience }, chunk)}
    AND (${chunk.updatedAt} > 0 OR ${chunk.expiresAt} <= ${now - patience + retentionMs})`;
  const countIf = (condition: SQL) => sql<number>`count(*) FILTER (WHERE ${condition})`;
  const [[counted], [end]] = await db.batch([
    db
      .select({
        pending: countIf(sql`${chunk.status} = 'pending'`),
        completed: countIf(sql`${chunk.status} = 'completed'`),
        released: countIf(sql`${chunk.status} = 'released'`),
        orphaned: countIf(isOrphaned),
        expired: countIf(sql`${chunk.expiresAt} < ${now}`),
      })
      .from(chunk),
    rest()
      .limit(1)
      .offset(CHUNK_ROWS - 1),
  ]);
  return { chunk: counted!, end };
}
