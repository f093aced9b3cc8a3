import type { Ports } from "../idempotency/attempt.ts";
import { claimOrAnswer, naiveKeyOf, storeResponse } from "./naive-key.ts";
import { answer, type OrderContext, placeOrder } from "./place-order.ts";

/**
 * Claims the key, then commits the order and the stored response in one transaction, and does not ask whether the claim
 * still stands. An owner that stalls for longer than the TTL is taken over; when it goes on, after its successor has
 * answered, it commits a second order and puts its own response in the place of the one that was given out.
 */
export const unfenced = (ports: Ports) => async (c: OrderContext) => {
  const key = await naiveKeyOf(c);
  const seen = await claimOrAnswer(c, key);
  if (seen !== undefined) return seen;

  const response = await placeOrder(c, ports, (made) => [storeResponse(c, key, made)]);
  return answer(response);
};
