import { type RouteHandler, z } from "@hono/zod-openapi";
import type { Context } from "hono";

import { countRows, isCountDue } from "../idempotency/census.ts";
import { evictionFaults, readFigures, type SweepRun } from "../idempotency/figures.ts";
import { describeError, log } from "../log.ts";
import type { AppEnv } from "../scope.ts";
import { timestamp } from "../wire.ts";
import { operatorRoute } from "./operator.ts";

const Run = z.object({
  started_at: z.iso.datetime(),
  ended_at: z.iso.datetime().nullable().describe("Null while it is running, or if it broke off."),
  duration_ms: z.int().nullable(),
  evicted: z.int(),
  batches: z.int(),
  caught_up: z.boolean().nullable().describe("False: its budget was spent before all was gone."),
  lag_ms: z.int().nullable().describe("As `lag_ms` of the whole, when it ended."),
});

const LedgerFigures = z
  .object({
    rows: z.object({
      pending: z.int(),
      completed: z.int(),
      released: z.int(),
      orphaned: z.int().describe("Pending, the lease long over, and nobody came back."),
      expired: z.int().describe("Of any status, past their window, and not evicted yet."),
      counted_at: z.iso.datetime().nullable(),
    }),
    oldest_live: z.iso
      .datetime()
      .nullable()
      .describe("When the live key whose window ends first was claimed."),
    takeovers: z.int().describe("Ever."),
    fenced_out: z.int().describe("Commits ever refused because the claim had been taken over."),
    eviction: z.object({
      failing: z.boolean(),
      faults: z
        .array(z.enum(["lag", "stopped"]))
        .describe("`lag`: over `alert_ms`. `stopped`: no run of the cron has ended for that long."),
      lag_ms: z.int().describe("Age of the oldest expired row that is still there."),
      alert_ms: z.int().describe("EVICTION_LAG_ALERT_MS."),
      evicted: z.int().describe("Keys ever evicted, after requests and by the cron."),
      last_run: Run.nullable().describe("The cron's."),
      earlier_runs: z.array(Run),
    }),
  })
  .openapi("LedgerFigures", {
    example: {
      rows: {
        pending: 0,
        completed: 1,
        released: 0,
        orphaned: 0,
        expired: 0,
        counted_at: "2026-01-01T12:00:00.000Z",
      },
      oldest_live: "2026-01-01T11:59:00.000Z",
      takeovers: 0,
      fenced_out: 0,
      eviction: {
        failing: false,
        faults: [],
        lag_ms: 0,
        alert_ms: 3_600_000,
        evicted: 0,
        last_run: null,
        earlier_runs: [],
      },
    },
  });

export const ledgerRoute = operatorRoute({
  path: "/admin/ledger",
  summary: "Read how the ledger fares. Counts every row: for a person, not for polling",
  wire: LedgerFigures,
});

export const readLedger: RouteHandler<typeof ledgerRoute, AppEnv> = async (c) => {
  const figures = await figuresNow(c, { mustCount: true });
  const [lastRun, ...earlierRuns] = figures.runs.map(runToWire);
  const { countedAt, ...rows } = figures.counts;
  return c.json(
    {
      rows: { ...rows, counted_at: countedAt === null ? null : timestamp(countedAt) },
      oldest_live: figures.oldestLiveAt === null ? null : timestamp(figures.oldestLiveAt),
      takeovers: figures.takeovers,
      fenced_out: figures.fencedOut,
      eviction: {
        failing: figures.faults.length > 0,
        faults: figures.faults,
        lag_ms: figures.lagMs,
        alert_ms: c.var.config.evictionLagAlertMs,
        evicted: figures.evicted,
        last_run: lastRun ?? null,
        earlier_runs: earlierRuns,
      },
    },
    200,
  );
};

/** The figures, with rows that are counted now or, unless they must be, for as long as the kept count is good enough. */
export async function figuresNow(c: Context<AppEnv>, { mustCount }: { mustCount: boolean }) {
  const { db, config } = c.var;
  const now = c.var.now();
  const figures = await readFigures(db, now);
  const faults = evictionFaults(figures, { ...config, now });
  if (!mustCount && !isCountDue(figures.counts, now)) return { ...figures, faults };
  const counting = countRows(db, { ...config, now }).catch((error: unknown) => {
    // What is known without counting, the alarm above all, is worth more than the count.
    log("error", { event: "count", request_id: c.var.requestId, error: describeError(error) });
    return figures.counts;
  });
  // A scraper that gives up before a large ledger is counted finds the count kept when it comes again.
  c.executionCtx.waitUntil(counting);
  return { ...figures, faults, counts: await counting };
}

function runToWire(run: SweepRun): z.infer<typeof Run> {
  const { startedAt, endedAt, evicted, batches, isCaughtUp, lagMs } = run;
  return {
    started_at: timestamp(startedAt),
    ended_at: endedAt === null ? null : timestamp(endedAt),
    duration_ms: endedAt === null ? null : endedAt - startedAt,
    evicted,
    batches,
    caught_up: isCaughtUp,
    lag_ms: lagMs,
  };
}
