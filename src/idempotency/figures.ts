import { asc, desc, gte, lt, lte, sql, type SQL } from "drizzle-orm";

import type { Database } from "./ledger.ts";
import { idempotencyKeys, ledgerFigures, sweepRuns } from "./schema.ts";

/** Runs that are shown: enough to see a pattern, and few enough to be read with every scrape. */
const LATEST_RUNS = 20;

export interface Figures {
  evicted: number;
  takeovers: number;
  fencedOut: number;
  counts: Counts;
  /** When the live key whose window ends first was claimed, epoch ms; null when there is none. */
  oldestLiveAt: number | null;
  /** Age of the oldest expired row that is still there, ms; 0 when there is none. */
  lagMs: number;
  /** The latest, the last one first. */
  runs: SweepRun[];
  /** The last one that has ended by now, however many broke off after it. */
  lastEndedRun: SweepRun | null;
  /** When the earliest run that is kept began, epoch ms. */
  firstRunAt: number | null;
}

/** Rows by status, as they were counted at `countedAt`, epoch ms; null while they have never been. */
export interface Counts {
  countedAt: number | null;
  pending: number;
  completed: number;
  released: number;
  orphaned: number;
  expired: number;
}

export type SweepRun = typeof sweepRuns.$inferSelect;

/** Everything that is known without counting: one round trip, and some 25 rows read however large the ledger is. */
export async function readFigures(db: Database, now: number): Promise<Figures> {
  const { createdAt, expiresAt } = idempotencyKeys;
  const oldest = (bound: SQL) =>
    db
      .select({ createdAt, expiresAt })
      .from(idempotencyKeys)
      .where(bound)
      .orderBy(asc(expiresAt))
      .limit(1);
  const [[row], runs, [lastEndedRun], [firstRun], [live], [expired]] = await db.batch([
    db.select().from(ledgerFigures),
    db.select().from(sweepRuns).orderBy(desc(sweepRuns.id)).limit(LATEST_RUNS),
    db
      .select()
      .from(sweepRuns)
      .where(lte(sweepRuns.endedAt, now))
      .orderBy(desc(sweepRuns.id))
      .limit(1),
    db.select().from(sweepRuns).orderBy(asc(sweepRuns.id)).limit(1),
    oldest(gte(expiresAt, now)),
    oldest(lt(expiresAt, now)),
  ]);
  if (row === undefined) throw new Error("bug: ledger_figures has lost its row");
  const { evicted, newestEvictedAt: _, takeovers, fencedOut, ...counts } = row;
  return {
    evicted,
    takeovers,
    fencedOut,
    counts,
    oldestLiveAt: live?.createdAt ?? null,
    lagMs: expired === undefined ? 0 : now - expired.expiresAt,
    runs,
    lastEndedRun: lastEndedRun ?? null,
    firstRunAt: firstRun?.startedAt ?? null,
  };
}

/**
 * Never fails, so that nothing fails with it, and is not to be waited for. One that is lost has its line in the log: the
 * request's says `fenced_out`.
 */
export async function countFencedOut(db: Database, times: number): Promise<void> {
  if (times === 0) return;
  await db
    .update(ledgerFigures)
    .set({ fencedOut: sql`${ledgerFigures.fencedOut} + ${times}` })
    .catch(() => undefined);
}

/**
 * - `lag`: expired rows stay for longer than the alert allows.
 * - `stopped`: no sweep of the cron has ended for that long.
 */
export type EvictionFault = "lag" | "stopped";

/** Whether more expires than is swept, or something keeps the sweep from it. */
export function isLagging(lag: { lagMs: number; evictionLagAlertMs: number }): boolean {
  return lag.lagMs > lag.evictionLagAlertMs;
}

/** Why eviction is failing, if it is. A cron that has stopped cannot say so itself, so whoever reads finds out. */
export function evictionFaults(
  {
    lagMs,
    lastEndedRun,
    firstRunAt,
    oldestLiveAt,
  }: Pick<Figures, "lagMs" | "lastEndedRun" | "firstRunAt" | "oldestLiveAt">,
  { now, evictionLagAlertMs }: { now: number; evictionLagAlertMs: number },
): EvictionFault[] {
  // Before the first one that ended: since the first sign that there was something to do.
  const since = lastEndedRun?.endedAt ?? Math.min(now, oldestLiveAt ?? now, firstRunAt ?? now);
  const faults: EvictionFault[] = [];
  if (isLagging({ lagMs, evictionLagAlertMs })) faults.push("lag");
  if (now - since > evictionLagAlertMs) faults.push("stopped");
  return faults;
}
