import type { Ports } from "../idempotency/attempt.ts";
import { answer, type OrderContext, placeOrder } from "./place-order.ts";

/**
 * No idempotency key at all; one that is sent is not looked at. Each request is a new order, so a client that never saw
 * the answer and sends the same again has bought twice: nothing has to go wrong but the answer's way back.
 */
export const noKey = (ports: Ports) => async (c: OrderContext) =>
  answer(await placeOrder(c, ports));
