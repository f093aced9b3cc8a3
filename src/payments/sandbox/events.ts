import { Stripe } from "stripe";

import type { Scope } from "./endpoint.ts";
import { first, insert } from "./storage.ts";
import { type ChargeWire, type IntentWire, toSeconds } from "./wire.ts";

export type EventType =
  | "payment_intent.succeeded"
  | "payment_intent.payment_failed"
  | "charge.refunded";

interface EventData {
  object: IntentWire | ChargeWire;
  previous_attributes?: object;
}

/** An event as it was sent, or would have been. */
export type EventRecord = {
  id: string;
  type: EventType;
  /** The JSON text that is signed and sent, the same each time. */
  payload: string;
  attempts: number;
  /** Epoch ms. Null when it was delivered, given up, or never to be sent. */
  nextAttemptAt: number | null;
  deliveredAt: number | null;
  createdAt: number;
};

const COLUMNS = `id, type, payload, attempts, next_attempt_at AS nextAttemptAt, delivered_at AS deliveredAt,
  created_at AS createdAt`;

/** Writes an event in the transaction that made it happen, due at once if there is anywhere to send it. */
export function recordEvent(scope: Scope, type: EventType, data: EventData): void {
  const now = scope.now();
  const id = scope.newId("evt");
  const isSent = scope.webhookUrl !== undefined;
  const payload = {
    id,
    object: "event",
    api_version: Stripe.API_VERSION,
    created: toSeconds(now),
    data,
    livemode: false,
    pending_webhooks: isSent ? 1 : 0,
    request: { id: scope.requestId, idempotency_key: scope.idempotencyKey },
    type,
  };
  insert(scope.sql, "events", {
    id,
    type,
    payload: JSON.stringify(payload),
    next_attempt_at: isSent ? now : null,
    created_at: now,
  });
}

export function findEvent(sql: SqlStorage, id: string): EventRecord | null {
  return first(sql.exec<EventRecord>(`SELECT ${COLUMNS} FROM events WHERE id = ?`, id));
}

/** Newest first. */
export function listEvents(sql: SqlStorage, limit: number): EventRecord[] {
  const newest = `SELECT ${COLUMNS} FROM events ORDER BY seq DESC LIMIT ?`;
  return sql.exec<EventRecord>(newest, limit).toArray();
}

export function dueEvents(sql: SqlStorage, due: { now: number; limit: number }): EventRecord[] {
  const rows = sql.exec<EventRecord>(
    `SELECT ${COLUMNS} FROM events WHERE next_attempt_at <= ? ORDER BY next_attempt_at, seq LIMIT ?`,
    due.now,
    due.limit,
  );
  return rows.toArray();
}

/** When the next event is due, epoch ms. Null when none is. */
export function nextDueAt(sql: SqlStorage): number | null {
  const earliest = "SELECT min(next_attempt_at) AS at FROM events";
  return sql.exec<{ at: number | null }>(earliest).one().at;
}

/** Makes an event due again, whatever became of it. False when there is none of that id. */
export function makeDue(sql: SqlStorage, id: string, now: number): boolean {
  const { rowsWritten } = sql.exec(
    "UPDATE events SET attempts = 0, delivered_at = NULL, next_attempt_at = ? WHERE id = ?",
    now,
    id,
  );
  return rowsWritten > 0;
}

export function noteDelivered(sql: SqlStorage, id: string, now: number): void {
  sql.exec(
    `UPDATE events SET attempts = attempts + 1, delivered_at = ?, next_attempt_at = NULL WHERE id = ?`,
    now,
    id,
  );
}

/** `nextAttemptAt` null gives it up. */
export function noteFailed(sql: SqlStorage, id: string, nextAttemptAt: number | null): void {
  sql.exec(
    "UPDATE events SET attempts = attempts + 1, next_attempt_at = ? WHERE id = ?",
    nextAttemptAt,
    id,
  );
}
