import { Stripe } from "stripe";

import type { PaymentRow, RefundRow } from "./schema.ts";

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
 * Charges a payment. The provider's idempotency key is the payment's id and every parameter comes from its row, so that
 * asking again, by whatever attempt, is the same request and gets the same answer.
 */
export function charge(provider: Provider, payment: PaymentRow): Promise<ProviderAnswer> {
  return ask(async () => {
    const intent = await provider.stripe.paymentIntents.create(
      {
        amount: payment.amount,
        currency: payment.currency.toLowerCase(),
        payment_method: payment.paymentMethod,
        automatic_payment_methods: { enabled: true, allow_redirects: "never" },
        confirm: true,
        // Nobody is there to answer a challenge: let it be a decline instead of a payment that waits for ever.
        error_on_requires_action: true,
        metadata: { payment_id: payment.id, order_id: payment.orderId },
      },
      { idempotencyKey: payment.id, timeout: provider.timeoutMs },
    );
    return { id: intent.id, status: intent.status };
  });
}

/** Gives money back, under the refund's id. */
export function giveBack(
  provider: Provider,
  refund: RefundRow,
  providerPaymentId: string,
): Promise<ProviderAnswer> {
  return ask(async () => {
    const given = await provider.stripe.refunds.create(
      {
        payment_intent: providerPaymentId,
        amount: refund.amount,
        metadata: { refund_id: refund.id, payment_id: refund.paymentId },
      },
      { idempotencyKey: refund.id, timeout: provider.timeoutMs },
    );
    return { id: given.id, status: given.status };
  });
}

async function ask(
  call: () => Promise<{ id: string; status: string | null }>,
): Promise<ProviderAnswer> {
  try {
    const { id, status } = await call();
    if (status === "succeeded") return { kind: "succeeded", providerId: id };
    if (status === "failed" || status === "canceled") {
      return { kind: "refused", code: status, providerId: id };
    }
    return { kind: "unknown", error: new Error(`the provider left ${id} ${status}`) };
  } catch (error) {
    return refusalOf(error) ?? { kind: "unknown", error };
  }
}

/** A card error and a request that the provider found invalid are its word that nothing was done. All else is not. */
function refusalOf(error: unknown): ProviderAnswer | undefined {
  if (error instanceof Stripe.errors.StripeCardError) {
    const code = error.decline_code ?? error.code ?? "card_declined";
    return { kind: "refused", code, providerId: error.payment_intent?.id ?? null };
  }
  if (error instanceof Stripe.errors.StripeInvalidRequestError) {
    return { kind: "refused", code: error.code ?? "invalid_request", providerId: null };
  }
  return undefined;
}
