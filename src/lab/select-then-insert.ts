import type { Ports } from "../idempotency/attempt.ts";
import { answerSeen, naiveKeyOf } from "./naive-key.ts";
import { answer, type OrderContext, placeOrder } from "./place-order.ts";
import { labKeys } from "./schema.ts";

/**
 * Looks the key up, and remembers it with its response once the order is placed: check, then act. Two requests that
 * both look before either has inserted both find nothing, and both place an order. The primary key lets only one of them
 * insert the key, and by then the other's order stands.
 */
export const selectThenInsert = (ports: Ports) => async (c: OrderContext) => {
  const key = await naiveKeyOf(c);
  const seen = await answerSeen(c, key);
  if (seen !== undefined) return seen;

  const response = await placeOrder(c, ports);
  await c.var.db
    .insert(labKeys)
    .values({ ...key, claimedAt: c.var.now(), response })
    .onConflictDoNothing();
  return answer(response);
};
