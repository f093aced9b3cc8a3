import { Stripe } from "stripe";
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";

import type { Scope } from "./endpoint.ts";
import type { Reply } from "./errors.ts";
import type { Params } from "./form.ts";

/** What a request gathers on its way through the sandbox. */
export interface ApiEnv {
  Variables: { params: Params; scope: Scope; isReplayed?: true; isReplyLost?: true };
}
export type ApiContext = Context<ApiEnv>;

export function send(c: ApiContext, { status, body }: Reply): Response {
  return sendText(c, status, JSON.stringify(body));
}

export function sendText(c: ApiContext, status: number, text: string): Response {
  const { scope } = c.var;
  // What is too large is turned away before it is anything.
  if (scope !== undefined) {
    c.header("request-id", scope.requestId);
    if (scope.idempotencyKey !== null) c.header("idempotency-key", scope.idempotencyKey);
  }
  c.header("content-type", "application/json");
  c.header("stripe-version", c.req.header("stripe-version") ?? Stripe.API_VERSION);
  return c.body(text, status as ContentfulStatusCode);
}
