import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { createMiddleware } from "hono/factory";

import { type ApiContext, type ApiEnv, send } from "./answer.ts";
import { type Plan, randomId } from "./endpoint.ts";
import * as errors from "./errors.ts";
import { decodeForm } from "./form.ts";
import { openKeys } from "./idempotency.ts";
import { withoutSecrets } from "./params.ts";
import { planConfirmIntent, planCreateIntent, retrieveIntent } from "./payment-intents.ts";
import { answerPost } from "./post.ts";
import { listRefunds, planCreateRefund, retrieveRefund } from "./refunds.ts";
import { insert } from "./storage.ts";

/** Above fifty metadata values of full length, written in percent signs. */
const MAX_BODY_BYTES = 131_072;

const BEARER = /^bearer +(\S+)$/i;
const TEST_KEY = /^sk_test_\w+$/;
const LOST_REPLY = "The answer was dropped, as the payment method asked for.";

export interface Parts {
  storage: DurableObjectStorage;
  /** Where events are sent. Undefined: nowhere. */
  webhookUrl: string | undefined;
  /** Called when events may have been written. */
  scheduleDelivery: () => void;
}

/** Stripe's API over HTTP, as much of it as the shop speaks: what every request passes, in order, then every route. */
export function sandboxApi(parts: Parts): (request: Request) => Promise<Response> {
  const app = new Hono<ApiEnv>();
  const posting = { ...parts, keys: openKeys(parts.storage.sql) };
  const post = (c: ApiContext, plan: Plan) => answerPost(posting, c, plan);

  app.use(bodyLimit({ maxSize: MAX_BODY_BYTES, onError: (c) => send(c, errors.TOO_LARGE) }));
  app.use(recordCall(parts));
  app.use(authenticate);
  app.notFound((c) => send(c, errors.unknownRoute(c.req.method, c.req.path)));
  app.onError((error, c) => {
    // Let out of the object, so that its caller sees a connection that broke.
    if (error.message === LOST_REPLY) throw error;
    console.error(JSON.stringify({ level: "error", event: "sandbox", message: error.message }));
    return send(c, errors.BROKEN);
  });

  app.post("/v1/payment_intents", (c) => post(c, planCreateIntent(c.var.scope, c.var.params)));
  app.get("/v1/payment_intents/:id", (c) =>
    send(c, retrieveIntent(c.var.scope, c.req.param("id"), c.var.params)),
  );
  app.post("/v1/payment_intents/:id/confirm", (c) =>
    post(c, planConfirmIntent(c.var.scope, c.req.param("id"), c.var.params)),
  );
  app.post("/v1/refunds", (c) => post(c, planCreateRefund(c.var.scope, c.var.params)));
  app.get("/v1/refunds", (c) => send(c, listRefunds(c.var.scope, c.var.params)));
  app.get("/v1/refunds/:id", (c) =>
    send(c, retrieveRefund(c.var.scope, c.req.param("id"), c.var.params)),
  );
  return async (request) => app.fetch(request);
}

/** Reads the parameters, and notes each call when it comes in and again when it is answered. */
function recordCall({ storage: { sql }, webhookUrl }: Parts) {
  return createMiddleware<ApiEnv>(async (c, next) => {
    const { method, path } = c.req;
    const requestId = randomId("req");
    const idempotencyKey = c.req.header("idempotency-key") ?? null;
    const form =
      method === "GET"
        ? new URL(c.req.url).search
        : new TextDecoder().decode(await c.req.arrayBuffer());
    const params = decodeForm(form);
    const now = Date.now;
    c.set("scope", { sql, now, newId: randomId, requestId, idempotencyKey, webhookUrl });
    insert(sql, "calls", {
      request_id: requestId,
      method,
      path,
      idempotency_key: idempotencyKey,
      params: JSON.stringify(withoutSecrets(params ?? {})),
      received_at: now(),
    });
    if (params === null) {
      c.res = send(c, errors.MALFORMED);
    } else {
      c.set("params", params);
      await next();
    }
    const { isReplayed = false, isReplyLost = false } = c.var;
    sql.exec(
      "UPDATE calls SET status = ?, is_replayed = ?, is_reply_lost = ? WHERE request_id = ?",
      c.res.status,
      Number(isReplayed),
      Number(isReplyLost),
      requestId,
    );
    if (isReplyLost) throw new Error(LOST_REPLY);
  });
}

const authenticate = createMiddleware<ApiEnv>(async (c, next) => {
  const apiKey = BEARER.exec(c.req.header("authorization") ?? "")?.[1];
  if (apiKey === undefined || !TEST_KEY.test(apiKey)) return send(c, errors.unauthorized(apiKey));
  await next();
});
