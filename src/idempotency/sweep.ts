import type { Database } from "./ledger.ts";
import { deleteExpired, evictionFigures } from "./ledger.ts";

export interface SweepSettings {
  pendingTtlMs: number;
  sweepBatchSize: number;
}

/** How long an isolate leaves the table alone after a sweep that found nothing, ms. */
const QUIET_MS = 10_000;
/** Rows per statement on the cron: far from D1's limits, and short enough for foreground writes to get in between. */
const CRON_BATCH_SIZE = 500;
/** A free-plan invocation may send 50 queries; the figures at the end need two. */
const CRON_MAX_BATCHES = 40;
/** The next run goes on where this one stopped, so there is no need to hold on for long. */
const CRON_BUDGET_MS = 20_000;

/**
 * Makes the sweep that rides in the wake of keyed requests, so that eviction keeps pace with the traffic that fills the
 * table. It deletes at most one batch, and rests after finding nothing.
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
    const evicted = await deleteExpired(scope.db, { now: startedAt, pendingTtlMs, limit });
    if (evicted > 0) quietUntil = 0;
    return evicted;
  };
}

export interface SweepReport {
  evicted: number;
  batches: number;
  /** Age of the oldest key inside its window, ms. Null when there is none. */
  oldestLiveMs: number | null;
  /** How long the oldest row that should be gone has been overdue, ms: 0 when caught up. Alert on this. */
  lagMs: number;
}

/** The cron's sweep: bounded batches until caught up or out of budget. */
export async function sweepUntilCaughtUp(
  db: Database,
  { now, pendingTtlMs }: { now: () => number; pendingTtlMs: number },
): Promise<SweepReport> {
  const startedAt = now();
  let evicted = 0;
  let batches = 0;
  while (batches < CRON_MAX_BATCHES && now() - startedAt < CRON_BUDGET_MS) {
    const limit = CRON_BATCH_SIZE;
    const gone = await deleteExpired(db, { now: startedAt, pendingTtlMs, limit });
    evicted += gone;
    batches += 1;
    if (gone < limit) break;
  }
  const { oldestLiveAt, oldestExpiredAt } = await evictionFigures(db, startedAt);
  return {
    evicted,
    batches,
    oldestLiveMs: oldestLiveAt === null ? null : startedAt - oldestLiveAt,
    lagMs: oldestExpiredAt === null ? 0 : startedAt - oldestExpiredAt,
  };
}
