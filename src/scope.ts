import { drizzle } from "drizzle-orm/d1";
import { createMiddleware } from "hono/factory";

import type { Database } from "./idempotency/ledger.ts";
import { interceptD1 } from "./d1.ts";
import { configOf, type Config } from "./env.ts";

/** What every handler can rely on, in the order in which the middleware provides it. */
export interface AppEnv {
  Bindings: Env;
  Variables: {
    requestId: string;
    config: Config;
    db: Database;
    /** Epoch ms. */
    now: () => number;
    /** Messages to D1 so far, and the time they took. */
    d1: { roundTrips: number; durationMs: number };
    /** More fields for this request's log line. */
    log: Record<string, unknown>;
    /** The authenticated account's id: the principal that scopes idempotency keys. */
    principal: string;
    idempotencyKey: string;
    /** What of the body says which request this is, where its bytes say more: a webhook sent again. */
    identifyingBody?: Uint8Array;
  };
}

/** Opens the request: its settings, and a database that counts its round trips. */
export function openScope({ now }: { now: () => number }) {
  return createMiddleware<AppEnv>(async (c, next) => {
    const d1 = { roundTrips: 0, durationMs: 0 };
    const counted = interceptD1(c.env.DB, async (send) => {
      const start = now();
      d1.roundTrips += 1;
      try {
        return await send();
      } finally {
        d1.durationMs += now() - start;
      }
    });
    c.set("now", now);
    c.set("log", {});
    c.set("config", configOf(c.env));
    c.set("d1", d1);
    c.set("db", drizzle(counted));
    await next();
  });
}
