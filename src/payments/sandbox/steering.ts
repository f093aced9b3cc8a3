/** What goes wrong between the caller and the sandbox. */
export type Fault =
  | { kind: "none" }
  /** Waits before it executes, and goes on when the caller has hung up. */
  | { kind: "slow"; ms: number }
  /** Executes, keeps the result, and drops the connection instead of answering. */
  | { kind: "lost_reply" }
  /** Answers 503 without executing the first time that a key is seen. */
  | { kind: "unavailable_once" };

export interface Decline {
  code: "card_declined" | "expired_card";
  declineCode: string;
  message: string;
}

export interface Behaviour {
  decline: Decline | null;
  /** Refunds of its payments are refused for good, as those of a disputed charge are. */
  refusesRefunds: boolean;
  onPayment: Fault;
  onRefund: Fault;
}

/** Longest that a slow payment method waits: longer than any sensible timeout, shorter than a test's patience. */
const MAX_SLOW_MS = 60_000;

const NONE: Fault = { kind: "none" };
const GOOD: Behaviour = { decline: null, refusesRefunds: false, onPayment: NONE, onRefund: NONE };
const LOST_REPLY: Fault = { kind: "lost_reply" };
const UNAVAILABLE_ONCE: Fault = { kind: "unavailable_once" };

/** The names without `sandbox` are Stripe's: https://docs.stripe.com/testing */
const BEHAVIOURS = new Map<string, Behaviour>([
  ["pm_card_visa", GOOD],
  ["pm_card_mastercard", GOOD],
  ["pm_card_chargeDeclined", declining("card_declined", "generic_decline")],
  [
    "pm_card_visa_chargeDeclinedInsufficientFunds",
    declining("card_declined", "insufficient_funds"),
  ],
  ["pm_card_chargeDeclinedExpiredCard", declining("expired_card", "expired_card")],
  ["pm_sandbox_lost_reply", { ...GOOD, onPayment: LOST_REPLY }],
  ["pm_sandbox_unavailable_once", { ...GOOD, onPayment: UNAVAILABLE_ONCE }],
  ["pm_sandbox_refund_lost_reply", { ...GOOD, onRefund: LOST_REPLY }],
  ["pm_sandbox_refund_unavailable_once", { ...GOOD, onRefund: UNAVAILABLE_ONCE }],
  ["pm_sandbox_refund_refused", { ...GOOD, refusesRefunds: true }],
]);

const SLOW = /^pm_sandbox_(refund_)?slow_(\d{1,5})$/;

/** What a test payment method does; undefined when there is none of that name. */
export function behaviourOf(paymentMethod: string): Behaviour | undefined {
  const [matched, forRefunds, digits] = SLOW.exec(paymentMethod) ?? [];
  if (matched === undefined) return BEHAVIOURS.get(paymentMethod);
  const ms = Number(digits);
  if (ms > MAX_SLOW_MS) return undefined;
  const slow: Fault = { kind: "slow", ms };
  return forRefunds === undefined ? { ...GOOD, onPayment: slow } : { ...GOOD, onRefund: slow };
}

function declining(code: Decline["code"], declineCode: string): Behaviour {
  const message = `The card was declined (${declineCode}).`;
  return { ...GOOD, decline: { code, declineCode, message } };
}
