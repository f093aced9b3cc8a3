import { beginRun, endRun, evictExpired } from "./eviction.ts";
import { isLagging, readFigures } from "./figures.ts";
import type { Database } from "./ledger.ts";

export interface SweepSettings {
  pendingTtlMs: number;
  sweepBatchSize: number;
}

/** How long an isolate leaves the table alone after a sweep that found nothing, ms. */
const QUIET_MS = 10_000;
/** Rows per batch on the cron: far from D1's limits, and short enough for foreground writes to get in between. */
export const CRON_BATCH_SIZE = 1_000;
/** Statements that one invocation may send on the free plan. */
export const FREE_PLAN_STATEMENTS = 50;
/** To begin the run and to end it. */
const RUN_STATEMENTS = 9;
const BATCH_STATEMENTS = 3;
/** Thirteen. Fewer and larger batches clear more rows with the same statements. */
export const CRON_MAX_BATCHES = Math.floor(
  (FREE_PLAN_STATEMENTS - RUN_STATEMENTS) / BATCH_STATEMENTS,
);
/** The next run goes on where this one stopped, so there is no need to hold on for long. */
const CRON_BUDGET_MS = 20_000;

/**
 * Makes the sweep that rides in the wake of keyed requests: one at a time, of one batch at most, and it rests after
 * finding nothing. Requests in turn thus evict more than they make. Of many at once few sweep, and what they leave is the
 * cron's.
 */
export function requestSweeper({ now }: { now: () => number }) {
  let quietUntil = 0;
  return async function sweepAfterRequest(scope: {
    db: Database;
    settings: SweepSettings;
  }): Promise<number> {
    const startedAt = now();
    if (startedAt < quietUntil) return 0;
    const { pendingTtlMs, sweepBatchSize: limit } = scope.settings;
    // Also holds off the other requests of this isolate while this sweep is on its way.
    quietUntil = startedAt + QUIET_MS;
    const evicted = await evictExpired(scope.db, { now: startedAt, pendingTtlMs, limit });
    if (evicted > 0) quietUntil = 0;
    return evicted;
  };
}

export interface SweepReport {
  evicted: number;
  batches: number;
  /** Whether it came to the end of what had expired. */
  isCaughtUp: boolean;
  /** Age of the oldest key inside its window, ms. Null when there is none. */
  oldestLiveMs: number | null;
  /** How long the oldest row that should be gone has been overdue, ms: 0 when caught up. */
  lagMs: number;
  /** Whether the lag is over the alert. */
  isLagging: boolean;
}

/**
 * The cron's sweep: bounded batches until caught up or out of budget. Its run is recorded as it begins and grows with
 * every batch, so that one that breaks off is seen, too.
 */
export async function sweepUntilCaughtUp(
  db: Database,
  {
    now,
    pendingTtlMs,
    evictionLagAlertMs,
  }: { now: () => number; pendingTtlMs: number; evictionLagAlertMs: number },
): Promise<SweepReport> {
  const startedAt = now();
  const runId = await beginRun(db, startedAt);
  const limit = CRON_BATCH_SIZE;
  let evicted = 0;
  let batches = 0;
  let isCaughtUp = false;
  // Each batch by the clock as it is then: seen from the start, a lease that began meanwhile would begin far ahead.
  let at = startedAt;
  while (!isCaughtUp && batches < CRON_MAX_BATCHES && at - startedAt < CRON_BUDGET_MS) {
    const gone = await evictExpired(db, { now: at, pendingTtlMs, limit, runId });
    evicted += gone;
    batches += 1;
    isCaughtUp = gone < limit;
    at = now();
  }
  const { oldestLiveAt, lagMs } = await readFigures(db, at);
  await endRun(db, runId, { endedAt: at, isCaughtUp, lagMs });
  return {
    evicted,
    batches,
    isCaughtUp,
    oldestLiveMs: oldestLiveAt === null ? null : at - oldestLiveAt,
    lagMs,
    isLagging: isLagging({ lagMs, evictionLagAlertMs }),
  };
}
