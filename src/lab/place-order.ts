import type { Context } from "hono";

import type { Ports } from "../idempotency/attempt.ts";
import { sendBatch } from "../idempotency/batch.ts";
import type { StoredResponse } from "../idempotency/decide.ts";
import { MAX_RUNS } from "../idempotency/idempotent.ts";
import type { Write } from "../idempotency/ledger.ts";
import { createOrder } from "../orders/create-order.ts";
import type { AppEnv } from "../scope.ts";

type Input = Parameters<typeof createOrder.reads>[0];

/** A request to place an order, authenticated and validated as that of `POST /orders` is. */
export type OrderContext = Context<AppEnv, string, { out: { json: Input["body"] } }>;

/**
 * Runs the real mutation and commits what it decided in one batch, with whatever `alsoWrite` adds. The order's id is new
 * with every execution, as an id that no key stands behind is, so no primary key stops a second order.
 *
 * @throws when the database does not answer, whether or not the order is in it.
 */
export async function placeOrder(
  c: OrderContext,
  { newId }: Ports,
  alsoWrite: (response: StoredResponse) => readonly Write[] = () => [],
): Promise<StoredResponse> {
  const { db, principal, idempotencyKey: key, now, requestId } = c.var;
  const input: Input = { db, principal, key, body: c.req.valid("json"), params: {} };
  for (let run = 1; run <= MAX_RUNS; run++) {
    const decision = await createOrder.run({
      ...input,
      reads: await db.batch(createOrder.reads(input)),
      operation: { id: newId(), generation: 1 },
      now: now(),
      requestId,
      checkpoint: () => Promise.reject(new Error("bug: an order has no checkpoint")),
    });
    if (decision.kind !== "decided") throw new Error(`bug: an order was ${decision.kind}`);

    const writes = [...decision.writes, ...alsoWrite(decision.response)];
    if (writes.length === 0) return decision.response;
    const sent = await sendBatch(db, writes);
    if (sent.kind === "done") return decision.response;
    if (sent.kind !== "constraint") throw sent.error;
  }
  throw new Error("bug: a constraint refused what fresh reads allowed");
}

/** The response as `POST /orders` answers it. */
export function answer(
  { status, headers, body }: StoredResponse,
  { isReplay = false } = {},
): Response {
  return new Response(body, {
    status,
    headers: { ...headers, "idempotent-replayed": String(isReplay) },
  });
}
