import { createRoute, z } from "@hono/zod-openapi";
import { eq } from "drizzle-orm";
import { createMiddleware } from "hono/factory";
import { Stripe } from "stripe";

import { MAX_KEY_LENGTH } from "../idempotency/key.ts";
import type { Write } from "../idempotency/ledger.ts";
import { mutation, type RunContext } from "../idempotency/mutation.ts";
import { problemResponse } from "../problem.ts";
import { readBodyUpTo } from "../request-body.ts";
import {
  keyedAnswerHeaders,
  keyedProblemHeaders,
  named,
  problemResponses,
} from "../route-answers.ts";
import type { AppEnv } from "../scope.ts";
import { ok, text } from "../wire.ts";
import type { Provider } from "./charge.ts";
import { selectRefundsOf } from "./read-payments.ts";
import { payments, type PaymentRow, type RefundRow } from "./schema.ts";
import { settleCharged, settleDeclined, settleRefunded, settleRefundRefused } from "./settle.ts";

/** Oldest signature that is accepted, seconds: what Stripe's own libraries take. A replay of an older one is refused. */
const TOLERANCE_SECONDS = 300;

/** Largest event that is taken, bytes: they hold whole objects of the provider's, and grow with its API. */
const MAX_EVENT_BYTES = 1024 * 1024;

/** As long as a key may be: the event's id is its key. */
const ProviderId = text(MAX_KEY_LENGTH);
const NamedEvent = z.looseObject({ id: ProviderId });

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
  // A second sending differs in what it says of the sending (`pending_webhooks`), and in how it renders the object once
  // the endpoint has moved to another API version: what happened is named by the id.
  const { id, type } = parsed.data;
  c.set("idempotencyKey", id);
  c.set("identifyingBody", new TextEncoder().encode(JSON.stringify({ id, type })));
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

// Only what is used of an object.
const Charge = z.looseObject({ metadata: z.record(z.string(), z.string()).nullish() });
const Refund = Charge.extend({ id: ProviderId, status: z.string().nullish() });
const PaymentIntent = Charge.extend({
  id: ProviderId,
  amount_received: z.int().nullish(),
  currency: z.string().nullish(),
  last_payment_error: z
    .looseObject({ code: z.string().nullish(), decline_code: z.string().nullish() })
    .nullish(),
});

const eventOf = <const Type extends string, Shape extends z.ZodType>(
  types: Type[],
  object: Shape,
) => z.looseObject({ id: ProviderId, type: z.enum(types), data: z.looseObject({ object }) });

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
  .looseObject({ id: ProviderId, type: z.string().refine((type) => !settlingTypes.has(type)) })
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
  middleware: [readBodyUpTo(() => MAX_EVENT_BYTES), verifiedEvent],
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
      return [db.select().from(payments).where(eq(payments.id, id)), selectRefundsOf(db, id)];
    },
    run: async (context) => {
      const [[payment], refundsOfPayment] = context.reads;
      // An event about a payment that is not ours, or of a kind that settles nothing, is taken and left alone.
      const writes =
        payment === undefined
          ? []
          : await settlementOf(context, provider, payment, refundsOfPayment);
      return { kind: "decided", response: ok({ received: true }), writes };
    },
  });

async function settlementOf(
  { db, body, now }: Pick<Context, "db" | "body" | "now">,
  provider: Provider,
  payment: PaymentRow,
  refundsOfPayment: RefundRow[],
): Promise<Write[]> {
  switch (body.type) {
    case "other":
      return [];
    case "payment_intent.succeeded": {
      const { id: providerId, amount_received, currency } = body.data.object;
      if (payment.status === "succeeded" && payment.providerPaymentId === providerId) return [];
      const isFull =
        amount_received === payment.amount && currency === payment.currency.toLowerCase();
      if (!isFull || payment.status !== "processing") throw unbooked(payment, providerId);
      return settleCharged(db, payment, { providerId, now });
    }
    case "payment_intent.payment_failed":
    case "payment_intent.canceled": {
      if (payment.status !== "processing") return [];
      const { id: providerId, last_payment_error: error } = body.data.object;
      const code = error?.decline_code || error?.code || "canceled";
      return settleDeclined(db, payment, { providerId, code, now });
    }
    case "charge.refunded": {
      const unsettled = refundsOfPayment.filter(({ status }) => status === "processing");
      if (unsettled.length === 0) return [];
      const given = await refundsGiven(provider, payment);
      return unsettled.flatMap((refund) => {
        const providerId = given.get(refund.id);
        return providerId === undefined
          ? []
          : settleRefunded(db, { refund, payment }, { providerId, now });
      });
    }
    case "refund.updated":
    case "refund.failed": {
      const { id: providerId, metadata, status } = body.data.object;
      const refund = refundsOfPayment.find(({ id }) => id === metadata?.["refund_id"]);
      if (refund === undefined) return [];
      if (status === "succeeded") {
        if (refund.status === "succeeded" && refund.providerRefundId === providerId) return [];
        if (refund.status !== "processing") throw unbooked(refund, providerId);
        return settleRefunded(db, { refund, payment }, { providerId, now });
      }
      if (refund.status !== "processing") return [];
      if (status !== "failed" && status !== "canceled") return [];
      return settleRefundRefused(db, refund, { providerId, now, code: status });
    }
  }
}

/** Such an event is not taken, so that it is sent again and seen: money has moved that no book here accounts for. */
function unbooked({ id, status }: PaymentRow | RefundRow, providerId: string): Error {
  return new Error(`bug: ${id} is ${status}, and ${providerId} has moved other money for it`);
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
