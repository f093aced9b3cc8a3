import { eq } from "drizzle-orm";
import { createMiddleware } from "hono/factory";
import QuickLRU from "quick-lru";

import { accounts } from "./accounts/schema.ts";
import { bearerToken } from "./bearer.ts";
import type { Database } from "./idempotency/ledger.ts";
import { sha256Hex } from "./idempotency/sha256.ts";
import { describeError, log } from "./log.ts";
import { problemResponse } from "./problem.ts";
import type { AppEnv } from "./scope.ts";

/** How long an isolate goes on trusting a key it has looked up: so long may a revoked key still be accepted, ms. */
const PRINCIPAL_CACHE_MS = 30_000;
/** Accounts an isolate remembers: about 100 bytes each. */
const PRINCIPAL_CACHE_SIZE = 1_000;

/**
 * Turns `Authorization: Bearer <key>` into `c.var.principal`, and applies the account's rate limit.
 *
 * Known keys are remembered in the isolate, so that authentication costs no round trip on a warm path. Unknown keys are
 * not: a new account works at once.
 */
export function authenticate() {
  const known = new QuickLRU<string, string>({
    maxSize: PRINCIPAL_CACHE_SIZE,
    maxAge: PRINCIPAL_CACHE_MS,
  });
  return createMiddleware<AppEnv>(async (c, next) => {
    const apiKey = bearerToken(c);
    if (apiKey === undefined) {
      return problemResponse(c, "unauthorized", { headers: { "www-authenticate": "Bearer" } });
    }
    const hash = await sha256Hex(apiKey);
    const cached = known.get(hash);
    // Guessing keys would cost a read each: the address that guesses is limited before the table is asked.
    const limited = cached ?? `address:${c.req.header("cf-connecting-ip") ?? "unknown"}`;
    const { success } = await c.env.RATE_LIMITER.limit({ key: limited }).catch(passOn);
    if (!success) return problemResponse(c, "rate_limited");
    const principal = cached ?? (await accountWithKey(c.var.db, hash));
    if (principal === undefined) {
      const challenge = 'Bearer error="invalid_token"';
      return problemResponse(c, "unauthorized", { headers: { "www-authenticate": challenge } });
    }
    // Only when looked up: a hit must not prolong the trust, or a busy revoked key would be accepted for ever.
    if (cached === undefined) known.set(hash, principal);
    c.set("principal", principal);
    await next();
  });
}

/** A limiter that is out of order limits nobody: it guards against runaways, not against doing things twice. */
function passOn(error: unknown) {
  log("error", { event: "rate_limiter", error: describeError(error) });
  return { success: true };
}

async function accountWithKey(db: Database, apiKeySha256: string): Promise<string | undefined> {
  const found = await db
    .select({ id: accounts.id })
    .from(accounts)
    .where(eq(accounts.apiKeySha256, apiKeySha256));
  return found[0]?.id;
}
