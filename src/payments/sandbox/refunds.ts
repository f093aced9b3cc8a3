import type { z } from "zod";

import type { Plan, Scope } from "./endpoint.ts";
import { invalidRequest, noSuch, type Reply } from "./errors.ts";
import { recordEvent } from "./events.ts";
import type { Params } from "./form.ts";
import { CreateRefund, ListRefunds, Nothing, parseParams } from "./params.ts";
import { behaviourOf } from "./steering.ts";
import {
  type ChargeRow,
  findCharge,
  findIntent,
  first,
  insert,
  type RefundRow,
} from "./storage.ts";
import { chargeToWire, refundToWire } from "./wire.ts";

type RefundParams = z.output<typeof CreateRefund>;

/** `POST /v1/refunds`, steered by the payment method of the payment that is refunded. */
export function planCreateRefund(scope: Scope, raw: Params): Plan {
  const parsed = parseParams(CreateRefund, raw);
  if (parsed.kind === "refused") return parsed;
  const { params } = parsed;
  const target = chargeOf(scope, params);
  const fault =
    target.kind === "found"
      ? behaviourOf(target.charge.payment_method)!.onRefund
      : ({ kind: "none" } as const);
  return { kind: "ready", fault, run: () => refund(scope, params) };
}

function refund(scope: Scope, params: RefundParams): Reply {
  const target = chargeOf(scope, params);
  if (target.kind === "missing") return target.reply;
  const { charge } = target;
  if (behaviourOf(charge.payment_method)!.refusesRefunds) {
    const message = `Charge ${charge.id} is disputed, so it cannot be refunded.`;
    return invalidRequest(message, { code: "charge_disputed" });
  }
  const left = charge.amount - charge.amount_refunded;
  if (left === 0) {
    const message = `Charge ${charge.id} is refunded already, in full.`;
    return invalidRequest(message, { code: "charge_already_refunded" });
  }
  const amount = params.amount ?? left;
  if (amount > left) {
    // Stripe gives no code here, so a caller has to know what it refunded.
    const message = `Of charge ${charge.id} only ${left} ${charge.currency} are left to refund.`;
    return invalidRequest(message, { param: "amount" });
  }
  const row: RefundRow = {
    id: scope.newId("re"),
    charge: charge.id,
    payment_intent: charge.payment_intent,
    amount,
    currency: charge.currency,
    status: "succeeded",
    reason: params.reason ?? null,
    metadata: JSON.stringify(params.metadata),
    idempotency_key: scope.idempotencyKey,
    created_at: scope.now(),
  };
  insert(scope.sql, "refunds", row);
  const refunded = scope.sql
    .exec<ChargeRow>(
      "UPDATE charges SET amount_refunded = amount_refunded + ? WHERE id = ? RETURNING *",
      amount,
      charge.id,
    )
    .one();
  recordEvent(scope, "charge.refunded", {
    object: chargeToWire(refunded),
    previous_attributes: { amount_refunded: charge.amount_refunded },
  });
  return { status: 200, body: refundToWire(row) };
}

/** `GET /v1/refunds/{id}` */
export function retrieveRefund({ sql }: Scope, id: string, raw: Params): Reply {
  const parsed = parseParams(Nothing, raw);
  if (parsed.kind === "refused") return parsed.reply;
  const row = first(sql.exec<RefundRow>("SELECT * FROM refunds WHERE id = ?", id));
  if (row === null) return noSuch("refund", id, { path: "refund" });
  return { status: 200, body: refundToWire(row) };
}

/** `GET /v1/refunds`, newest first, with `starting_after` as the cursor. */
export function listRefunds({ sql }: Scope, raw: Params): Reply {
  const parsed = parseParams(ListRefunds, raw);
  if (parsed.kind === "refused") return parsed.reply;
  const {
    charge = null,
    payment_intent: intent = null,
    starting_after: after,
    limit,
  } = parsed.params;
  const cursor =
    after === undefined
      ? { seq: Number.MAX_SAFE_INTEGER }
      : first(sql.exec<{ seq: number }>("SELECT seq FROM refunds WHERE id = ?", after));
  if (cursor === null) return noSuch("refund", after!, { param: "starting_after" });
  // One more than asked for tells whether there is more.
  const rows = sql
    .exec<RefundRow>(
      `SELECT * FROM refunds WHERE seq < ? AND (? IS NULL OR charge = ?) AND (? IS NULL OR payment_intent = ?)
       ORDER BY seq DESC LIMIT ?`,
      cursor.seq,
      charge,
      charge,
      intent,
      intent,
      limit + 1,
    )
    .toArray();
  const data = rows.slice(0, limit).map(refundToWire);
  const has_more = rows.length > limit;
  return { status: 200, body: { object: "list", url: "/v1/refunds", has_more, data } };
}

type Target = { kind: "found"; charge: ChargeRow } | { kind: "missing"; reply: Reply };

function chargeOf({ sql }: Scope, params: RefundParams): Target {
  if (params.charge !== undefined) {
    const charge = findCharge(sql, params.charge);
    if (charge === null) return missing(noSuch("charge", params.charge, { param: "charge" }));
    return charge.status === "succeeded" ? { kind: "found", charge } : missing(NOTHING_CHARGED);
  }
  const id = params.payment_intent!;
  const intent = findIntent(sql, id);
  if (intent === null) return missing(noSuch("payment_intent", id, { param: "payment_intent" }));
  if (intent.status !== "succeeded") return missing(NOTHING_CHARGED);
  return { kind: "found", charge: findCharge(sql, intent.latest_charge!)! };
}

function missing(reply: Reply): Target {
  return { kind: "missing", reply };
}

const NOTHING_CHARGED = invalidRequest("Nothing was charged that could be refunded.");
