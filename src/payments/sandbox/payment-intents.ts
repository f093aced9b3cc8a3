import type { Plan, Scope } from "./endpoint.ts";
import { errorReply, invalidRequest, noSuch, type Reply } from "./errors.ts";
import { recordEvent } from "./events.ts";
import type { Params } from "./form.ts";
import { ConfirmIntent, CreateIntent, Nothing, parseParams } from "./params.ts";
import { behaviourOf, type Decline, type Fault } from "./steering.ts";
import { findIntent, insert, type IntentRow } from "./storage.ts";
import { intentToWire } from "./wire.ts";

const NO_FAULT: Fault = { kind: "none" };

/** `POST /v1/payment_intents`, with `confirm=true` charged at once. */
export function planCreateIntent(scope: Scope, raw: Params): Plan {
  const parsed = parseParams(CreateIntent, raw);
  if (parsed.kind === "refused") return parsed;
  const { amount, currency, confirm, payment_method: method, metadata } = parsed.params;
  const behaviour = method === undefined ? undefined : behaviourOf(method);
  if (method !== undefined && behaviour === undefined) return refuseMethod(method);
  if (confirm && method === undefined) {
    const more = { code: "parameter_missing", param: "payment_method" };
    return { kind: "refused", reply: invalidRequest("Without a card nothing is confirmed.", more) };
  }
  const run = (): Reply => {
    const id = scope.newId("pi");
    const intent: IntentRow = {
      id,
      amount,
      currency,
      status: method === undefined ? "requires_payment_method" : "requires_confirmation",
      payment_method: method ?? null,
      latest_charge: null,
      last_payment_error: null,
      metadata: JSON.stringify(metadata),
      client_secret: scope.newId(`${id}_secret`),
      created_at: scope.now(),
    };
    insert(scope.sql, "payment_intents", intent);
    return confirm ? charge(scope, intent, method!) : { status: 200, body: intentToWire(intent) };
  };
  return { kind: "ready", fault: confirm ? behaviour!.onPayment : NO_FAULT, run };
}

/** `POST /v1/payment_intents/{id}/confirm` */
export function planConfirmIntent(scope: Scope, id: string, raw: Params): Plan {
  const parsed = parseParams(ConfirmIntent, raw);
  if (parsed.kind === "refused") return parsed;
  const given = parsed.params.payment_method;
  if (given !== undefined && behaviourOf(given) === undefined) return refuseMethod(given);
  const method = given ?? findIntent(scope.sql, id)?.payment_method ?? undefined;
  const run = (): Reply => {
    // Read again: while a slow payment method waits, another request may settle the same intent.
    const intent = findIntent(scope.sql, id);
    if (intent === null) return noSuch("payment_intent", id, { path: "intent" });
    if (intent.status === "succeeded" || method === undefined) return refuseState(intent);
    return charge(scope, intent, method);
  };
  const fault = method === undefined ? NO_FAULT : behaviourOf(method)!.onPayment;
  return { kind: "ready", fault, run };
}

/** `GET /v1/payment_intents/{id}` */
export function retrieveIntent({ sql }: Scope, id: string, raw: Params): Reply {
  const parsed = parseParams(Nothing, raw);
  if (parsed.kind === "refused") return parsed.reply;
  const intent = findIntent(sql, id);
  if (intent === null) return noSuch("payment_intent", id, { path: "intent" });
  return { status: 200, body: intentToWire(intent) };
}

function charge(scope: Scope, intent: IntentRow, method: string): Reply {
  const { decline } = behaviourOf(method)!;
  const chargeId = scope.newId("ch");
  insert(scope.sql, "charges", {
    id: chargeId,
    payment_intent: intent.id,
    amount: intent.amount,
    amount_refunded: 0,
    currency: intent.currency,
    status: decline === null ? "succeeded" : "failed",
    payment_method: method,
    failure_code: decline?.code ?? null,
    failure_message: decline?.message ?? null,
    metadata: intent.metadata,
    idempotency_key: scope.idempotencyKey,
    created_at: scope.now(),
  });
  if (decline !== null) return declined(scope, intent, chargeId, decline);
  const paid = settle(scope, intent.id, { status: "succeeded", method, chargeId, error: null });
  recordEvent(scope, "payment_intent.succeeded", { object: paid });
  return { status: 200, body: paid };
}

/** The failed charge is kept, and the intent waits for another card. */
function declined(scope: Scope, intent: IntentRow, chargeId: string, decline: Decline): Reply {
  const error = {
    type: "card_error" as const,
    code: decline.code,
    decline_code: decline.declineCode,
    message: decline.message,
    charge: chargeId,
  };
  const status = "requires_payment_method";
  const failed = settle(scope, intent.id, { status, method: null, chargeId, error });
  recordEvent(scope, "payment_intent.payment_failed", { object: failed });
  return errorReply(402, { ...error, payment_intent: failed });
}

function settle(
  { sql }: Scope,
  id: string,
  to: {
    status: IntentRow["status"];
    method: string | null;
    chargeId: string;
    error: object | null;
  },
) {
  const error = to.error === null ? null : JSON.stringify(to.error);
  const settled = sql.exec<IntentRow>(
    `UPDATE payment_intents SET status = ?, payment_method = ?, latest_charge = ?, last_payment_error = ?
     WHERE id = ? RETURNING *`,
    to.status,
    to.method,
    to.chargeId,
    error,
    id,
  );
  return intentToWire(settled.one());
}

function refuseMethod(method: string): Plan {
  return { kind: "refused", reply: noSuch("PaymentMethod", method, { param: "payment_method" }) };
}

function refuseState(intent: IntentRow): Reply {
  return errorReply(400, {
    type: "invalid_request_error",
    code: "payment_intent_unexpected_state",
    message: `A PaymentIntent that is ${intent.status} cannot be confirmed like this.`,
    payment_intent: intentToWire(intent),
  });
}
