import type { Ports } from "../idempotency/attempt.ts";
import { claimOrAnswer, naiveKeyOf, storeResponse } from "./naive-key.ts";
import { answer, type OrderContext, placeOrder } from "./place-order.ts";

/**
 * Claims the key, places the order, then stores the response: what a middleware around a handler comes to. An owner that
 * dies after the order's transaction and before the response's leaves an order that its key knows nothing of. Once the
 * TTL has passed, a retry takes the claim over and places another.
 */
export const twoTransactions = (ports: Ports) => async (c: OrderContext) => {
  const key = await naiveKeyOf(c);
  const seen = await claimOrAnswer(c, key);
  if (seen !== undefined) return seen;

  const response = await placeOrder(c, ports);
  await storeResponse(c, key, response);
  return answer(response);
};
