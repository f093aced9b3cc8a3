import { DurableObject } from "cloudflare:workers";

import { configOf, type Config } from "../../env.ts";
import * as books from "./books.ts";
import { deliverDue, type Receiver, signEvent, type SignedEvent } from "./delivery.ts";
import { type EventRecord, findEvent, listEvents, makeDue, nextDueAt } from "./events.ts";
import { sandboxApi } from "./api.ts";
import { createTables } from "./storage.ts";

/**
 * The payment provider's embedded default: another system, with a database of its own outside the order's transaction,
 * that speaks Stripe's wire format and is steered by test payment methods (steering.ts). Over HTTP it is what Stripe
 * is; its methods are its books, which only the operator and the tests read.
 */
export class StripeSandbox extends DurableObject<Env> {
  readonly #config: Config;
  readonly #api: ReturnType<typeof sandboxApi>;

  constructor(state: DurableObjectState, env: Env) {
    super(state, env);
    this.#config = configOf(env);
    createTables(state.storage.sql);
    this.#api = sandboxApi({
      storage: state.storage,
      webhookUrl: this.#config.sandboxWebhookUrl,
      scheduleDelivery: () => this.#scheduleDelivery(),
    });
  }

  override async fetch(request: Request): Promise<Response> {
    const answer = this.#api(request);
    // A caller that hangs up does not stop what it started: that is what makes an unknown outcome unknown.
    this.ctx.waitUntil(answer.catch(() => undefined));
    return answer;
  }

  /** Every charge, failed ones too, newest first. */
  charges(query?: books.PageQuery): books.ChargeRecord[] {
    return books.listCharges(this.ctx.storage.sql, query);
  }

  /** The charges of one of the shop's payments, known by the intent's metadata `payment_id`, oldest first. */
  chargesOf(paymentId: string): books.ChargeRecord[] {
    return books.listChargesOf(this.ctx.storage.sql, paymentId);
  }

  refunds(query?: books.PageQuery): books.RefundRecord[] {
    return books.listRefundRecords(this.ctx.storage.sql, query);
  }

  totals(): books.Totals {
    return books.totalsOf(this.ctx.storage.sql);
  }

  /** Every call received, refused ones too, newest first. */
  calls(query?: books.PageQuery): books.CallRecord[] {
    return books.listCalls(this.ctx.storage.sql, query);
  }

  events(query: { limit?: number } = {}): EventRecord[] {
    return listEvents(this.ctx.storage.sql, books.bounded(query.limit));
  }

  /** An event signed for now, as a receiver would get it. Null when there is none of that id, or no secret. */
  async signedEvent(id: string): Promise<SignedEvent | null> {
    const event = findEvent(this.ctx.storage.sql, id);
    const secret = this.#config.stripeWebhookSecrets[0];
    if (event === null || secret === undefined) return null;
    return signEvent(event.payload, { secret, now: Date.now() });
  }

  /** Sends an event again, delivered or not. False when there is none of that id, or nowhere to send it. */
  async resend(id: string): Promise<boolean> {
    if (this.#receiver() === null) return false;
    const isThere = makeDue(this.ctx.storage.sql, id, Date.now());
    this.#scheduleDelivery();
    return isThere;
  }

  override async alarm(): Promise<void> {
    const receiver = this.#receiver();
    if (receiver === null) return;
    await deliverDue(this.ctx.storage.sql, { ...receiver, now: Date.now });
    this.#scheduleDelivery();
  }

  #receiver(): Receiver | null {
    const { sandboxWebhookUrl: url, stripeSecretKey, stripeWebhookSecrets } = this.#config;
    const secret = stripeWebhookSecrets[0];
    // With a real key, what the sandbox still has to say is about payments that are nobody's.
    const isSilent = stripeSecretKey !== undefined || url === undefined || secret === undefined;
    return isSilent ? null : { url, secret };
  }

  /** Without an await since the event was written, the alarm is set in the same transaction. */
  #scheduleDelivery(): void {
    const dueAt = nextDueAt(this.ctx.storage.sql);
    if (dueAt !== null) this.ctx.waitUntil(this.ctx.storage.setAlarm(dueAt));
  }
}
