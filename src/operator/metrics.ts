import { type RouteHandler, z } from "@hono/zod-openapi";

import type { EvictionFault, Figures } from "../idempotency/figures.ts";
import type { AppEnv } from "../scope.ts";
import { exposition, EXPOSITION_TYPE, type Metric } from "./exposition.ts";
import { figuresNow } from "./ledger-figures.ts";
import { operatorRoute } from "./operator.ts";

export const metricsRoute = operatorRoute({
  path: "/metrics",
  summary:
    "Read the ledger's figures as Prometheus text. Give the scraper ADMIN_TOKEN as its bearer token",
  type: "text/plain",
  wire: z.string(),
});

export const readMetrics: RouteHandler<typeof metricsRoute, AppEnv> = async (c) => {
  const figures = await figuresNow(c, { mustCount: false });
  return c.text(exposition(metricsOf(figures)), 200, { "content-type": EXPOSITION_TYPE });
};

/** Counters live in the database, so they go on where they were whichever isolate answers. */
export function metricsOf(figures: Figures & { faults: EvictionFault[] }): Metric[] {
  const { counts, lastEndedRun, oldestLiveAt } = figures;
  const counted = (value: number) => (counts.countedAt === null ? null : value);
  return [
    {
      name: "idempotency_keys",
      type: "gauge",
      help: "Keys by status, as of idempotency_keys_counted_timestamp_seconds.",
      samples: (["pending", "completed", "released"] as const).map((status) => ({
        labels: { status },
        value: counted(counts[status]),
      })),
    },
    gauge(
      "idempotency_keys_orphaned",
      "Pending keys whose lease is long over and that nobody came back to, counted likewise.",
      counted(counts.orphaned),
    ),
    gauge(
      "idempotency_keys_expired",
      "Keys past their window that are not evicted yet, counted likewise.",
      counted(counts.expired),
    ),
    gauge(
      "idempotency_keys_counted_timestamp_seconds",
      "When the keys were counted. A large ledger is counted once an hour.",
      seconds(counts.countedAt),
    ),
    gauge(
      "idempotency_oldest_live_timestamp_seconds",
      "When the live key whose window ends first was claimed.",
      seconds(oldestLiveAt),
    ),
    counter("idempotency_takeovers_total", "Claims taken over.", figures.takeovers),
    counter(
      "idempotency_fenced_out_total",
      "Commits refused because the claim had been taken over.",
      figures.fencedOut,
    ),
    counter("idempotency_evicted_total", "Keys evicted.", figures.evicted),
    gauge(
      "idempotency_eviction_lag_seconds",
      "Age of the oldest expired key that is still there.",
      seconds(figures.lagMs),
    ),
    gauge(
      "idempotency_eviction_failing",
      "1 if the lag is over the alert, or no sweep of the cron has ended for that long.",
      figures.faults.length > 0 ? 1 : 0,
    ),
    gauge(
      "idempotency_eviction_last_run_timestamp_seconds",
      "When the cron's last sweep to end ended.",
      seconds(lastEndedRun?.endedAt ?? null),
    ),
    gauge(
      "idempotency_eviction_last_run_evicted",
      "Keys that it evicted.",
      lastEndedRun?.evicted ?? null,
    ),
  ];
}

function gauge(name: string, help: string, value: number | null): Metric {
  return { name, type: "gauge", help, samples: [{ value }] };
}

function counter(name: `${string}_total`, help: string, value: number): Metric {
  return { name, type: "counter", help, samples: [{ value }] };
}

function seconds(ms: number | null): number | null {
  return ms === null ? null : ms / 1000;
}
