import { and, eq, isNull, lte } from "drizzle-orm";

import type { StoredResponse } from "../idempotency/decide.ts";
import { sha256Hex } from "../idempotency/sha256.ts";
import { problemResponse } from "../problem.ts";
import { answer, type OrderContext } from "./place-order.ts";
import { labKeys } from "./schema.ts";

export interface NaiveKey {
  endpoint: string;
  principal: string;
  key: string;
  bodySha256: string;
}

export async function naiveKeyOf(c: OrderContext): Promise<NaiveKey> {
  const { principal, idempotencyKey: key } = c.var;
  const bodySha256 = await sha256Hex(new Uint8Array(await c.req.arrayBuffer()));
  return { endpoint: c.req.path, principal, key, bodySha256 };
}

/** What a key that was seen before is answered; undefined when it is new. */
export async function answerSeen(c: OrderContext, key: NaiveKey): Promise<Response | undefined> {
  const [row] = await c.var.db.select().from(labKeys).where(isRowOf(key));
  if (row === undefined) return undefined;
  if (row.bodySha256 !== key.bodySha256) {
    return problemResponse(c, "idempotency_key_reused", { status: c.var.config.reuseStatus });
  }
  if (row.response !== null) return answer(row.response, { isReplay: true });
  return problemResponse(c, "idempotency_key_in_progress");
}

/**
 * Claims a new key, or takes over a claim that is older than the TTL: one statement, so that one of many wins. Undefined
 * to the one who has the claim, an answer to all others.
 */
export async function claimOrAnswer(c: OrderContext, key: NaiveKey): Promise<Response | undefined> {
  const claimedAt = c.var.now();
  const isStale = lte(labKeys.claimedAt, claimedAt - c.var.config.pendingTtlMs);
  const claimed = await c.var.db
    .insert(labKeys)
    .values({ ...key, claimedAt })
    .onConflictDoUpdate({
      target: [labKeys.endpoint, labKeys.principal, labKeys.key],
      set: { claimedAt },
      setWhere: and(eq(labKeys.bodySha256, key.bodySha256), isNull(labKeys.response), isStale),
    });
  if (claimed.meta.changes === 1) return undefined;
  const seen = await answerSeen(c, key);
  if (seen === undefined) throw new Error("bug: a key was refused that is not there");
  return seen;
}

export function storeResponse(c: OrderContext, key: NaiveKey, response: StoredResponse) {
  return c.var.db.update(labKeys).set({ response }).where(isRowOf(key));
}

function isRowOf({ endpoint, principal, key }: NaiveKey) {
  return and(
    eq(labKeys.endpoint, endpoint),
    eq(labKeys.principal, principal),
    eq(labKeys.key, key),
  );
}
