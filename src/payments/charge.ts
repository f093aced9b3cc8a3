import { Stripe } from "stripe";

import type { PaymentRow, RefundRow } from "./schema.ts";
import { keptCode } from "./settle.ts";

/** Somebody else's system: nothing that happens there can be rolled back here. */
export interface Provider {
  stripe: Stripe;
  /** Longest wait for one answer, ms. Shorter than the lease, so that its owner is never taken over while it waits. */
  timeoutMs: number;
}

/** What the provider said. `unknown`: it may have acted, and only asking again under the same key finds out. */
export type ProviderAnswer =
  | { kind: "succeeded"; providerId: string }
  | { kind: "refused"; code: string; providerId: string | null }
  | { kind: "unknown"; error: unknown };

/**
 * How long after its first call a key may be sent again, ms. Stripe forgets keys after 24 hours, and would then charge
 * anew: what is older is left to webhooks and to the operator.
 */
const KEY_WINDOW_MS = 23 * 60 * 60 * 1000;

interface Asked {
  /** Nobody has asked before. Only then does a refusal of the request itself say that nothing was done. */
  isFirst: boolean;
  /** Epoch ms. */
  now: number;
}

/**
 * Charges a payment. The provider's idempotency key is the payment's id and every parameter comes from its row, so that
 * asking again, by whatever attempt, is the same request and gets the same answer.
 */
export function charge(
  { stripe, timeoutMs }: Provider,
  payment: PaymentRow,
  asked: Asked,
): Promise<ProviderAnswer> {
  const { id, orderId, amount, paymentMethod, createdAt } = payment;
  const currency = payment.currency.toLowerCase();
  return ask({ ...asked, createdAt }, async () => {
    const intent = await stripe.paymentIntents.create(
      {
        amount,
        currency,
        payment_method: paymentMethod,
        automatic_payment_methods: { enabled: true, allow_redirects: "never" },
        confirm: true,
        // Nobody is there to answer a challenge: let it be a decline instead of a payment that waits for ever.
        error_on_requires_action: true,
        metadata: { payment_id: id, order_id: orderId },
      },
      { idempotencyKey: id, timeout: timeoutMs },
    );
    // Under one key the stored answer comes back, as it was: what has become of it since must be asked for.
    const current = isFinal(intent)
      ? intent
      : await stripe.paymentIntents.retrieve(intent.id, {}, { timeout: timeoutMs });
    const isOurs =
      current.object === "payment_intent" &&
      current.metadata["payment_id"] === id &&
      current.amount === amount &&
      current.currency === currency;
    return { ...current, isOurs };
  });
}

/** Gives money back, under the refund's id. */
export function giveBack(
  { stripe, timeoutMs }: Provider,
  refund: RefundRow,
  { providerPaymentId, ...asked }: Asked & { providerPaymentId: string },
): Promise<ProviderAnswer> {
  const { id, paymentId, amount, createdAt } = refund;
  return ask({ ...asked, createdAt }, async () => {
    const given = await stripe.refunds.create(
      {
        payment_intent: providerPaymentId,
        amount,
        metadata: { refund_id: id, payment_id: paymentId },
      },
      { idempotencyKey: id, timeout: timeoutMs },
    );
    const current = isFinal(given)
      ? given
      : await stripe.refunds.retrieve(given.id, {}, { timeout: timeoutMs });
    const isOurs =
      current.object === "refund" &&
      current.metadata?.["refund_id"] === id &&
      current.amount === amount;
    return { ...current, isOurs };
  });
}

function isFinal({ status }: { status: string | null }): boolean {
  return status === "succeeded" || status === "failed" || status === "canceled";
}

async function ask(
  { isFirst, now, createdAt }: Asked & { createdAt: number },
  call: () => Promise<{ id: string; status: string | null; isOurs: boolean }>,
): Promise<ProviderAnswer> {
  if (now - createdAt > KEY_WINDOW_MS) {
    return { kind: "unknown", error: new Error("too old to be asked again under its key") };
  }
  try {
    const { id, status, isOurs } = await call();
    // The client takes whatever is no error for an answer; a proxy's page, or somebody else's intent, is none.
    if (!isOurs) return { kind: "unknown", error: new Error("the answer is about something else") };
    if (status === "succeeded") return { kind: "succeeded", providerId: id };
    if (isFinal({ status })) return { kind: "refused", code: String(status), providerId: id };
    return { kind: "unknown", error: new Error(`the provider left ${id} ${status}`) };
  } catch (error) {
    return refusalOf(error, isFirst) ?? { kind: "unknown", error };
  }
}

/**
 * What the provider refused for good. A card error is its decision about this key. That the request itself was invalid
 * is decided anew each time, and says nothing of a try before. The class follows the status, so the type is read.
 */
function refusalOf(error: unknown, isFirst: boolean): ProviderAnswer | undefined {
  if (!(error instanceof Stripe.errors.StripeError)) return undefined;
  const code = keptCode(error.decline_code || error.code || error.rawType || "");
  if (error.rawType === "card_error") {
    return { kind: "refused", code, providerId: error.payment_intent?.id ?? null };
  }
  const isDefinite =
    error.rawType === "invalid_request_error" && (isFirst || isStored(error)) && !isBusy(error);
  return isDefinite ? { kind: "refused", code, providerId: null } : undefined;
}

/** The answer that the first call got, whoever made it. */
function isStored({ headers }: Stripe.errors.StripeError): boolean {
  return new Headers(headers).get("idempotent-replayed") === "true";
}

/** Refused for now, whatever the type says: the same request can succeed later. */
function isBusy({ statusCode, code }: Stripe.errors.StripeError): boolean {
  return (statusCode !== 400 && statusCode !== 404) || code === "lock_timeout";
}
