import { cors } from "hono/cors";

import type { AppEnv } from "./scope.ts";
import type { Context } from "hono";

/** What a browser may send, and what it lets its page see of an answer: a retrying client needs all of it. */
export const crossOrigin = cors({
  origin: (_origin, c: Context<AppEnv>) => c.var.config.corsOrigin,
  allowMethods: ["GET", "POST"],
  allowHeaders: [
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "Prefer",
    "X-Api-Version",
    "X-Request-Id",
  ],
  exposeHeaders: [
    "Idempotent-Replayed",
    "Location",
    "Preference-Applied",
    "Retry-After",
    "Server-Timing",
    "X-Request-Id",
  ],
  maxAge: 86_400,
});
