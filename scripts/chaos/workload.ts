import { ACME, type Answer, GLOBEX, type KeyedRequest } from "../demo-shop.ts";
import { type Random, randomFrom } from "../random.ts";

/** One operation of a story: a request, and how its clients go about it. */
export interface Errand extends KeyedRequest {
  /** How many send it at once, each again until it is decided. */
  senders: number;
  /** How often each of them tries before it gives up. */
  tries: number;
}

/** What becomes of one order: errands that go out at once, and then, by what was answered, the next ones. */
export type Story = Generator<Errand[], void, (Answer | undefined)[]>;

/** Tees are plenty, of pins there is one. Both are ACME's. */
const TEE = "prod_0192f3a0-0000-7000-8000-000000000002";
const PIN = "prod_0192f3a0-0000-7000-8000-000000000003";
const NO_PRODUCT = "prod_0192f3a0-0000-7000-8000-00000000000f";

const PAYMENT_METHODS = [
  "pm_card_visa",
  "pm_card_chargeDeclined",
  "pm_sandbox_lost_reply",
  "pm_sandbox_unavailable_once",
  "pm_sandbox_slow_150",
  // Longer than the shop waits for the provider.
  "pm_sandbox_slow_600",
  "pm_sandbox_refund_lost_reply",
  "pm_sandbox_refund_unavailable_once",
  "pm_sandbox_refund_refused",
];

const MAX_SENDERS = 4;
const MAX_TRIES = 8;

/** The story of a number under a seed: always the same one, whatever is answered to others. */
export function* tellStory({ seed, number }: { seed: number; number: number }): Story {
  // Neighbours must not begin alike.
  const random = randomFrom(Math.imul(seed, 0x9e3779b1) ^ Math.imul(number, 0x85ebca6b));
  const account = random.chance(0.6) ? ACME : GLOBEX;
  const errand = (name: string, path: string, body: object | undefined): Errand => ({
    account,
    path,
    key: `chaos-${seed}-${number}-${name}`,
    body: body === undefined ? "" : JSON.stringify(body),
    senders: random.chance(0.5) ? 1 : random.between(2, MAX_SENDERS),
    tries: random.between(1, MAX_TRIES),
  });
  const reference = `story ${number}`;

  const items = itemsOf(account, random);
  const order = errand("order", "/orders", { items, reference });
  const orderId = created(yield withOther(order, { items, reference: "another" }, random));
  if (orderId === undefined) return;
  const at = `/orders/${orderId}`;
  const cancel = () => errand("cancel", `${at}/cancel`, undefined);
  const pay = (name: string, method = random.pick(PAYMENT_METHODS)) =>
    errand(name, `${at}/payments`, { payment_method: method });

  if (random.chance(0.1)) return;
  if (random.chance(0.15)) {
    yield [cancel()];
    return;
  }
  const payment = withOther(pay("pay"), { payment_method: "pm_card_mastercard" }, random);
  // Two keys for one order, or a payment and a cancellation: only one of them can have it.
  const rival = random.chance(0.2) ? [random.chance(0.5) ? pay("rival") : cancel()] : [];
  const paid = created(yield [...payment, ...rival]);
  const paymentId = paid ?? created(yield [pay("pay-again", "pm_card_visa")]);
  if (paymentId === undefined) return;

  const refund = (name: string, body: object) =>
    errand(name, `/payments/${paymentId}/refunds`, body);
  if (random.chance(0.4)) {
    yield [refund("refund", { amount: random.between(1, 500), reason: reference })];
    // What is left, and at once a part of it: together they are too much.
    yield [refund("rest", {}), refund("part", { amount: random.between(1, 500) })];
  }
}

function itemsOf(account: KeyedRequest["account"], random: Random) {
  const item = (product_id: string) => ({ product_id, quantity: random.between(1, 3) });
  const usual = [item(account.product)];
  if (random.chance(0.05)) return [...usual, item(NO_PRODUCT)];
  if (account !== ACME) return usual;
  return random.chance(0.1) ? [...usual, item(PIN)] : [...usual, item(TEE)];
}

/** Now and then somebody uses the key for something else at the same time, and may well be the first. */
function withOther(errand: Errand, body: object, random: Random): Errand[] {
  if (!random.chance(0.15)) return [errand];
  const other = { ...errand, body: JSON.stringify(body), senders: 1 };
  return random.chance(0.5) ? [errand, other] : [other, errand];
}

/** The id of what was made, should anybody have heard of it. */
function created(answers: readonly (Answer | undefined)[]): string | undefined {
  return answers.find((answer) => answer?.status === 201)?.json["id"] as string | undefined;
}
