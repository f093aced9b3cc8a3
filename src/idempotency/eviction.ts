import { and, asc, eq, gt, lt, lte, ne, sql } from "drizzle-orm";

import { type Database, noLease } from "./ledger.ts";
import { idempotencyKeys, ledgerFigures, sweepRuns } from "./schema.ts";

// The ledger's SQL: the transitions of a row are in ledger.ts, how rows leave is here, and how they are counted is in
// figures.ts and census.ts.

/** Runs that are kept: a day of them, one every five minutes. */
const KEPT_RUNS = 288;

/**
 * Deletes at most `limit` rows whose window has ended, oldest first, and books how many went and how late the latest of
 * them was completed (by now at most: a clock that is far ahead must not say more), in one transaction: the total cannot
 * drift, whoever else is sweeping and whether or not the answer arrives. Costs one round trip, one row written for the
 * total (none when nothing went) and one for `runId`, the cron's run, if it is given.
 *
 * @returns how many rows went.
 */
export async function evictExpired(
  db: Database,
  {
    now,
    pendingTtlMs,
    limit,
    runId,
  }: { now: number; pendingTtlMs: number; limit: number; runId?: number },
): Promise<number> {
  const { principal, key, status, updatedAt, expiresAt } = idempotencyKeys;
  const batch = db
    .select({ principal, key, status, updatedAt })
    .from(idempotencyKeys)
    .where(and(lt(expiresAt, now), noLease({ now, pendingTtlMs })))
    .orderBy(asc(expiresAt))
    .limit(limit)
    .as("batch");
  const completedAt = sql`iif(${batch.status} = 'completed', ${batch.updatedAt}, 0)`;
  const counted = db
    .select({
      rows: sql<number>`count(*)`.as("rows"),
      newestAt: sql<number>`max(${completedAt})`.as("newest_at"),
    })
    .from(batch)
    .as("counted");
  const book = db
    .update(ledgerFigures)
    .set({
      evicted: sql`${ledgerFigures.evicted} + ${counted.rows}`,
      newestEvictedAt: sql`max(${ledgerFigures.newestEvictedAt}, min(${counted.newestAt}, ${now}))`,
    })
    .from(counted)
    .where(gt(counted.rows, 0));
  const bookRun = db
    .update(sweepRuns)
    .set({
      evicted: sql`${sweepRuns.evicted} + ${counted.rows}`,
      batches: sql`${sweepRuns.batches} + 1`,
    })
    .from(counted)
    .where(eq(sweepRuns.id, runId ?? 0));
  const evict = db
    .delete(idempotencyKeys)
    .where(
      sql`(${principal}, ${key}) IN ${db.select({ principal: batch.principal, key: batch.key }).from(batch)}`,
    );

  const [booked, ...rest] = await db.batch(
    runId === undefined ? [book, evict] : [book, bookRun, evict],
  );
  const evicted = rest.at(-1)!.meta.changes;
  const isBooked = booked.meta.changes === 1;
  if (isBooked !== evicted > 0) throw new Error(`bug: ${evicted} evictions were not booked`);
  return evicted;
}

/**
 * Records that the cron's sweep has begun, and forgets the runs that are too old to be kept. Returns its number.
 *
 * The last one that ended is never too old, or the first one while none has: since when the cron has been failing is
 * known by it alone.
 */
export async function beginRun(db: Database, startedAt: number): Promise<number> {
  const { id, endedAt } = sweepRuns;
  const newest = db.select({ id: sql`max(${id})` }).from(sweepRuns);
  const telling = db
    .select({ id: sql`coalesce(max(iif(${endedAt} IS NULL, NULL, ${id})), min(${id}))` })
    .from(sweepRuns);
  const [[run]] = await db.batch([
    db.insert(sweepRuns).values({ startedAt }).returning({ id: sweepRuns.id }),
    db.delete(sweepRuns).where(and(lte(id, sql`(${newest}) - ${KEPT_RUNS}`), ne(id, telling))),
  ]);
  return run!.id;
}

export async function endRun(
  db: Database,
  id: number,
  end: { endedAt: number; isCaughtUp: boolean; lagMs: number },
): Promise<void> {
  await db.update(sweepRuns).set(end).where(eq(sweepRuns.id, id));
}
