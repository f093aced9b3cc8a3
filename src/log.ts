import { DrizzleQueryError } from "drizzle-orm";
import { createMiddleware } from "hono/factory";
import { routePath } from "hono/route";

import { sha256Hex } from "./idempotency/sha256.ts";
import type { AppEnv } from "./scope.ts";

/** One JSON line. Never a body, a bound value or a key: what identifies a caller is hashed. */
export function log(level: "info" | "error", fields: Record<string, unknown>): void {
  console[level](JSON.stringify({ level, at: new Date().toISOString(), ...fields }));
}

/** How far a chain of causes is followed: some end in themselves. */
const MAX_CAUSES = 5;

/** What an error may say in the log. Drizzle puts bound values into its message and stack, so its cause speaks for it. */
export function describeError(error: unknown, depth = 0): Record<string, unknown> {
  if (error instanceof DrizzleQueryError) return describeError(error.cause, depth);
  if (!(error instanceof Error)) return { message: String(error) };
  const { message, stack, cause } = error;
  if (cause === undefined || depth === MAX_CAUSES) return { message, stack };
  return { message, stack, cause: describeError(cause, depth + 1) };
}

/** Logs one line for each request, once its answer is known. */
export function logRequests({ now }: { now: () => number }) {
  return createMiddleware<AppEnv>(async (c, next) => {
    const start = now();
    await next();
    const { requestId, principal, idempotencyKey, d1, log: more } = c.var;
    const status = c.res.status;
    log(status >= 500 ? "error" : "info", {
      request_id: requestId,
      method: c.req.method,
      // The pattern, since a path may hold an idempotency key.
      route: routePath(c, -1),
      status,
      duration_ms: now() - start,
      d1_round_trips: d1?.roundTrips ?? 0,
      principal: await shortHash(principal),
      key: await shortHash(idempotencyKey && `${principal} ${idempotencyKey}`),
      ...more,
      ...(c.error !== undefined && { error: describeError(c.error) }),
    });
  });
}

/** Enough to find all lines of one key; too little to find the key. */
async function shortHash(value: string | undefined): Promise<string | undefined> {
  return value === undefined ? undefined : (await sha256Hex(value)).slice(0, 16);
}
