import type { Stripe } from "stripe";

import type { ChargeRow, IntentRow, RefundRow } from "./storage.ts";

/** Of Stripe's objects, the fields that the sandbox fills in. Their types are Stripe's own. */
export type IntentWire = Pick<
  Stripe.PaymentIntent,
  | "id"
  | "object"
  | "amount"
  | "amount_capturable"
  | "amount_received"
  | "canceled_at"
  | "capture_method"
  | "client_secret"
  | "confirmation_method"
  | "created"
  | "currency"
  | "last_payment_error"
  | "latest_charge"
  | "livemode"
  | "metadata"
  | "next_action"
  | "payment_method"
  | "payment_method_types"
  | "status"
>;

export type ChargeWire = Pick<
  Stripe.Charge,
  | "id"
  | "object"
  | "amount"
  | "amount_captured"
  | "amount_refunded"
  | "captured"
  | "created"
  | "currency"
  | "disputed"
  | "failure_code"
  | "failure_message"
  | "livemode"
  | "metadata"
  | "paid"
  | "payment_intent"
  | "payment_method"
  | "refunded"
  | "status"
>;

export type RefundWire = Pick<
  Stripe.Refund,
  | "id"
  | "object"
  | "amount"
  | "charge"
  | "created"
  | "currency"
  | "metadata"
  | "payment_intent"
  | "reason"
  | "status"
>;

export function intentToWire(row: IntentRow): IntentWire {
  return {
    id: row.id,
    object: "payment_intent",
    amount: row.amount,
    amount_capturable: 0,
    amount_received: row.status === "succeeded" ? row.amount : 0,
    canceled_at: null,
    capture_method: "automatic",
    client_secret: row.client_secret,
    confirmation_method: "automatic",
    created: toSeconds(row.created_at),
    currency: row.currency,
    last_payment_error: row.last_payment_error === null ? null : JSON.parse(row.last_payment_error),
    latest_charge: row.latest_charge,
    livemode: false,
    metadata: JSON.parse(row.metadata),
    next_action: null,
    payment_method: row.payment_method,
    payment_method_types: ["card"],
    status: row.status,
  };
}

export function chargeToWire(row: ChargeRow): ChargeWire {
  const isPaid = row.status === "succeeded";
  return {
    id: row.id,
    object: "charge",
    amount: row.amount,
    amount_captured: isPaid ? row.amount : 0,
    amount_refunded: row.amount_refunded,
    captured: isPaid,
    created: toSeconds(row.created_at),
    currency: row.currency,
    disputed: false,
    failure_code: row.failure_code,
    failure_message: row.failure_message,
    livemode: false,
    metadata: JSON.parse(row.metadata),
    paid: isPaid,
    payment_intent: row.payment_intent,
    payment_method: row.payment_method,
    refunded: isPaid && row.amount_refunded === row.amount,
    status: row.status,
  };
}

export function refundToWire(row: RefundRow): RefundWire {
  return {
    id: row.id,
    object: "refund",
    amount: row.amount,
    charge: row.charge,
    created: toSeconds(row.created_at),
    currency: row.currency,
    metadata: JSON.parse(row.metadata),
    payment_intent: row.payment_intent,
    reason: row.reason,
    status: row.status,
  };
}

/** Stripe's times are whole seconds since 1970. */
export function toSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}
