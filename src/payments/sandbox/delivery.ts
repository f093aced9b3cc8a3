import { Stripe } from "stripe";

import { dueEvents, type EventRecord, noteDelivered, noteFailed } from "./events.ts";
import { toSeconds } from "./wire.ts";

/** Events sent at once: an alarm's worth, with the rest in the next one. */
const BATCH_SIZE = 20;
/** Longest that a receiver may take, ms. */
const RECEIVER_TIMEOUT_MS = 10_000;
/** Tries for one event: with doubling waits from 1 s they span about a quarter of an hour. */
const MAX_ATTEMPTS = 10;
const FIRST_WAIT_MS = 1_000;

export interface Receiver {
  url: string;
  secret: string;
}

export interface SignedEvent {
  payload: string;
  /** The value of the `stripe-signature` header. */
  signature: string;
}

/** Signs with the stripe package, for the moment of sending: a receiver refuses a signature that is old. */
export async function signEvent(
  payload: string,
  { secret, now }: { secret: string; now: number },
): Promise<SignedEvent> {
  const timestamp = toSeconds(now);
  const header = { payload, secret, timestamp };
  return { payload, signature: await Stripe.webhooks.generateTestHeaderStringAsync(header) };
}

/** Sends what is due, and notes what became of it: at least once until a 2xx, then never again by itself. */
export async function deliverDue(
  sql: SqlStorage,
  { now, ...receiver }: Receiver & { now: () => number },
): Promise<void> {
  const due = dueEvents(sql, { now: now(), limit: BATCH_SIZE });
  await Promise.all(
    due.map(async (event) => {
      if (await isAccepted(event, receiver, now())) return noteDelivered(sql, event.id, now());
      noteFailed(sql, event.id, nextAttemptAfter(event.attempts + 1, now()));
    }),
  );
}

async function isAccepted(event: EventRecord, receiver: Receiver, now: number): Promise<boolean> {
  const { payload, signature } = await signEvent(event.payload, { ...receiver, now });
  try {
    const response = await fetch(receiver.url, {
      method: "POST",
      headers: { "content-type": "application/json; charset=utf-8", "stripe-signature": signature },
      body: payload,
      // A redirect is not a 2xx, and a signed body is not carried to somewhere else.
      redirect: "manual",
      signal: AbortSignal.timeout(RECEIVER_TIMEOUT_MS),
    });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}

function nextAttemptAfter(attempts: number, now: number): number | null {
  return attempts < MAX_ATTEMPTS ? now + FIRST_WAIT_MS * 2 ** (attempts - 1) : null;
}
