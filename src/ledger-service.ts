import type { Context } from "hono";

import type { Outcome, Ports, Trace } from "./idempotency/attempt.ts";
import type { Refusal, Service } from "./idempotency/handler.ts";
import { describeError, log } from "./log.ts";
import { problemResponse, storedProblem } from "./problem.ts";
import type { AppEnv } from "./scope.ts";

/** When to look again while another attempt is executing: a little longer than an operation takes, in a second at most. */
const LOOK_AGAIN_MS = 200;

/** Ties the ledger, which knows nothing of this shop, to its settings, its errors and its log. */
export function ledgerService(ports: Ports): Service<AppEnv> {
  return {
    ...ports,
    scopeOf: (c) => {
      const {
        db,
        principal,
        idempotencyKey: key,
        identifyingBody,
        requestId,
        config: settings,
      } = c.var;
      return { db, principal, key, identifyingBody, requestId, settings };
    },
    refuse,
    responseTooLarge: (requestId) => storedProblem(requestId, "idempotent_response_too_large"),
    observe,
    observeSweep: (c, seen) => {
      if ("error" in seen)
        log("error", {
          event: "sweep",
          request_id: c.var.requestId,
          error: describeError(seen.error),
        });
      else log("info", { event: "sweep", request_id: c.var.requestId, evicted: seen.evicted });
    },
  };
}

function refuse(c: Context<AppEnv>, refusal: Refusal): Response {
  switch (refusal.kind) {
    case "in_progress": {
      const { takeoverAfterMs } = refusal;
      return problemResponse(c, "idempotency_key_in_progress", {
        retry_after_ms: Math.min(LOOK_AGAIN_MS, takeoverAfterMs),
        takeover_after_ms: takeoverAfterMs,
      });
    }
    case "reused":
      return problemResponse(c, "idempotency_key_reused", { status: c.var.config.reuseStatus });
    case "vanished":
      return problemResponse(c, "idempotency_key_retry");
    case "failed":
      return problemResponse(c, "internal_error");
    case "outcome_unknown":
      return problemResponse(c, "outcome_unknown");
    case "unavailable":
      return problemResponse(c, "service_unavailable");
  }
}

function observe(
  c: Context<AppEnv>,
  { outcome, trace }: { outcome: Outcome["kind"]; trace: Trace },
) {
  Object.assign(c.var.log, {
    // Counted here, before the sweep that follows the answer adds its own.
    d1_round_trips: c.var.d1.roundTrips,
    outcome,
    operation: trace.operation?.id,
    generation: trace.operation?.generation,
    ...(trace.runs > 1 && { runs: trace.runs }),
    ...(trace.timesFencedOut > 0 && { fenced_out: true }),
    ...(trace.error !== undefined && { error: describeError(trace.error) }),
  });
  if (!c.var.config.hasServerTiming) return;
  const { roundTrips, durationMs } = c.var.d1;
  const phases = Object.entries(trace.phases).map(([phase, ms]) => `${phase};dur=${ms}`);
  c.header(
    "server-timing",
    [`d1;desc="round trips ${roundTrips}";dur=${durationMs}`, ...phases].join(", "),
  );
}
