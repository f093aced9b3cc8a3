import { createRoute, z } from "@hono/zod-openapi";
import { and, eq } from "drizzle-orm";
import { createMiddleware } from "hono/factory";
import { Stripe } from "stripe";

import type { Write } from "../idempotency/ledger.ts";
import { mutation, type RunContext } from "../idempotency/mutation.ts";
import { problemResponse } from "../problem.ts";
import { readBody } from "../request-body.ts";
import {
  keyedAnswerHeaders,
  keyedProblemHeaders,
  named,
  problemResponses,
} from "../route-answers.ts";
import type { AppEnv } from "../scope.ts";
import { ok } from "../wire.ts";
import type { Provider } from "./charge.ts";
import { payments, type PaymentRow, refunds, type RefundRow } from "./schema.ts";
import { settleCharged, settleDeclined, settleRefunded, settleRefundRefused } from "./settle.ts";

/** Oldest signature that is accepted, seconds: what Stripe's own libraries take. A replay of an older one is refused. */
const TOLERANCE_SECONDS = 300;

const NamedEvent = z.looseObject({ id: z.string() });

/**
 * Checks the signature over the raw body, against each secret in turn so that they can be rotated, and names the event as
 * the idempotency key: Stripe sends an event again until it hears 2xx.
 */
const verifiedEvent = createMiddleware<AppEnv>(async (c, next) => {
  const signature = c.req.header("stripe-signature") ?? "";
  const payload = await c.req.text();
  const event: unknown = await verify(payload, signature, c.var.config.stripeWebhookSecrets);
  if (event === undefined) return problemResponse(c, "webhook_signature_invalid");
  c.set("principal", "webhook:stripe");
  const parsed = NamedEvent.safeParse(event);
  // What is no event has no key: the route's own schema refuses it next.
  if (!parsed.success) return next();
  // A second sending differs in what it says of the sending (`pending_webhooks`): the event is what counts.
  const { id, type, data } = parsed.data;
  c.set("idempotencyKey", id);
  c.set("identifyingBody", new TextEncoder().encode(JSON.stringify({ id, type, data })));
  return next();
});

const webhook = new Stripe("sk_none").webhooks;

async function verify(payload: string, signature: string, secrets: readonly string[]) {
  const crypto = Stripe.createSubtleCryptoProvider();
  for (const secret of secrets) {
    try {
      return await webhook.constructEventAsync(
        payload,
        signature,
        secret,
        TOLERANCE_SECONDS,
        crypto,
      );
    } catch {
      // Another secret may fit.
    }
  }
  return undefined;
}

// Only what is used of an object, and all of it optional.
const Charge = z.looseObject({
  id: z.string().optional(),
  metadata: z.record(z.string(), z.string()).nullish(),
});
const Refund = Charge.extend({ status: z.string().nullish() });
const PaymentIntent = Charge.extend({
  amount_received: z.int().nullish(),
  currency: z.string().nullish(),
  last_payment_error: z
    .looseObject({ code: z.string().nullish(), decline_code: z.string().nullish() })
    .nullish(),
});

const eventOf = <const Type extends string, Shape extends z.ZodType>(
  types: Type[],
  object: Shape,
) => z.looseObject({ id: z.string(), type: z.enum(types), data: z.looseObject({ object }) });

const SettlingEvent = z.discriminatedUnion("type", [
  eventOf(["payment_intent.succeeded"], PaymentIntent),
  eventOf(["payment_intent.payment_failed", "payment_intent.canceled"], PaymentIntent),
  eventOf(["charge.refunded"], Charge),
  eventOf(["refund.updated", "refund.failed"], Refund),
]);
const settlingTypes = new Set<string>(
  SettlingEvent.options.flatMap(({ shape }) => shape.type.options),
);

/** Events of every type arrive here and must be taken, whatever they hold. */
const OtherEvent = z
  .looseObject({ id: z.string(), type: z.string().refine((type) => !settlingTypes.has(type)) })
  .transform(({ id }) => ({ id, type: "other" as const }));

const Event = z
  .union([SettlingEvent, OtherEvent], { error: "is no event, or not as its type is" })
  .openapi("StripeEvent", {
    example: {
      id: "evt_1",
      type: "payment_intent.succeeded",
      data: {
        object: {
          id: "pi_1",
          metadata: { payment_id: "pay_0192f3a0-0000-7000-8000-000000000003" },
          amount_received: 2500,
          currency: "eur",
        },
      },
    },
  });

export const webhookRoute = createRoute({
  method: "post",
  path: "/webhooks/stripe",
  ...named("post", "/webhooks/stripe"),
  summary: "Take an event from the payment provider",
  security: [{ webhook: [] }],
  middleware: [readBody, verifiedEvent],
  request: { body: { content: { "application/json": { schema: Event } }, required: true } },
  responses: {
    200: {
      description: "Taken",
      headers: keyedAnswerHeaders(200),
      content: { "application/json": { schema: z.object({ received: z.literal(true) }) } },
    },
    ...problemResponses(
      [
        "webhook_signature_invalid",
        "invalid_request",
        "body_too_large",
        "unsupported_media_type",
        "idempotency_key_in_progress",
        "idempotency_key_retry",
        "idempotency_key_reused",
        "internal_error",
        "outcome_unknown",
        "service_unavailable",
      ],
      keyedProblemHeaders,
    ),
  },
});

type Context = RunContext<typeof webhookRoute, []>;

/** Settles what is still being processed. What is settled stays as it is, in whatever order events arrive. */
export const settleEvent = (provider: Provider) =>
  mutation(webhookRoute, {
    reads: ({ db, body }) => {
      const id = (body.type !== "other" && body.data.object.metadata?.["payment_id"]) || "";
      return [
        db.select().from(payments).where(eq(payments.id, id)),
        db
          .select()
          .from(refunds)
          .where(and(eq(refunds.paymentId, id), eq(refunds.status, "processing"))),
      ];
    },
    run: async (context) => {
      const [[payment], unsettledRefunds] = context.reads;
      // An event about a payment that is not ours, or of a kind that settles nothing, is taken and left alone.
      const writes =
        payment === undefined
          ? []
          : await settlementOf(context, provider, payment, unsettledRefunds);
      return { kind: "decided", response: ok({ received: true }), writes };
    },
  });

async function settlementOf(
  { db, body, now }: Pick<Context, "db" | "body" | "now">,
  provider: Provider,
  payment: PaymentRow,
  unsettledRefunds: RefundRow[],
): Promise<Write[]> {
  if (body.type === "other") return [];
  const providerId = body.data.object.id ?? null;
  switch (body.type) {
    case "payment_intent.succeeded": {
      const { object } = body.data;
      if (payment.status === "succeeded") return [];
      const isFull =
        object.amount_received === payment.amount &&
        object.currency === payment.currency.toLowerCase();
      // Not taken, so that it is sent again and seen: money has moved that no book here accounts for.
      if (!isFull || payment.status === "failed") {
        throw new Error(`bug: ${payment.id} is ${payment.status}, and was charged all the same`);
      }
      return settleCharged(db, payment, { providerId, now });
    }
    case "payment_intent.payment_failed":
    case "payment_intent.canceled": {
      if (payment.status !== "processing") return [];
      const error = body.data.object.last_payment_error;
      const code = error?.decline_code || error?.code || "canceled";
      return settleDeclined(db, payment, { providerId, code, now });
    }
    case "charge.refunded": {
      if (unsettledRefunds.length === 0) return [];
      const given = await refundsGiven(provider, payment);
      return unsettledRefunds.flatMap((refund) => {
        const id = given.get(refund.id);
        return id === undefined
          ? []
          : settleRefunded(db, { refund, payment }, { providerId: id, now });
      });
    }
    case "refund.updated":
    case "refund.failed": {
      const { object } = body.data;
      const refund = unsettledRefunds.find(({ id }) => id === object.metadata?.["refund_id"]);
      if (refund === undefined) return [];
      if (object.status === "succeeded") {
        return settleRefunded(db, { refund, payment }, { providerId, now });
      }
      if (object.status !== "failed" && object.status !== "canceled") return [];
      return settleRefundRefused(db, refund, { providerId, now, code: object.status });
    }
  }
}

/** Most refunds of one payment that are looked at: more than anybody makes. */
const MAX_REFUNDS = 100;

/** Our ids of the refunds that the provider has carried out: the event itself names the charge only. */
async function refundsGiven({ stripe, timeoutMs }: Provider, payment: PaymentRow) {
  const { data } = await stripe.refunds.list(
    { payment_intent: payment.providerPaymentId!, limit: MAX_REFUNDS },
    { timeout: timeoutMs },
  );
  return new Map(
    data
      .filter(({ status }) => status === "succeeded")
      .map(({ id, metadata }) => [metadata?.["refund_id"] ?? "", id]),
  );
}
