// Lesson 3: the takeover.
//
// Goal: an owner that stalls is taken over, and what it does late is worth nothing. Half of the payments stall at the
// provider for longer than the service waits for it, so that its owner gives up while the charge is still on its way, and
// a retry continues under the next generation. The other half are slow, but in time; their owners are taken over where
// the clocks of the machines disagree, as they do in `npm run load -- 03`, and come back with a success in their hands
// that the fence refuses. Each payment is charged once.
// By hand: `npm start -- --env load --var PROVIDER_TIMEOUT_MS:500 --var PENDING_TTL_MS:1500`
import { check } from "k6";
import { scenario } from "k6/execution";
import { Trend } from "k6/metrics";
import type { Options } from "k6/options";

import { BALANCED, type Books, closeBooks, openBooks } from "./books.ts";
import { counted, UNBROKEN } from "./iteration.ts";
import { positive, text } from "./settings.ts";
import { orderOf, paymentOf, postUntilFinal, read } from "./shop.ts";
import { summaryOf } from "./summary.ts";

/** How many send each payment, all at once and each until it has the outcome. */
const SENDERS = 4;
const VUS = positive("VUS", 40);
const KEYS = positive("KEYS", 60);
/** Of the service. */
const PROVIDER_TIMEOUT_MS = positive("PROVIDER_TIMEOUT_MS", 500);
/** Past the timeout, and past the end of a lease of the lesson's 1500 ms. */
const STALLED_MS = 4 * PROVIDER_TIMEOUT_MS;
const SLOW_MS = Math.floor(0.7 * PROVIDER_TIMEOUT_MS);
const areClocksWrong = text("CLOCKS", "right") === "wrong";

const generation = new Trend("generation");

export const options: Options = {
  scenarios: {
    stalls: {
      executor: "shared-iterations",
      vus: VUS,
      iterations: KEYS * SENDERS,
      maxDuration: "30m",
    },
  },
  teardownTimeout: "5m",
  thresholds: {
    "generation{kind:stalled}": ["min>=2"],
    ledger_takeovers: [`value>=${Math.floor(KEYS / 2)}`],
    ledger_fenced_out: [areClocksWrong ? "value>0" : "value>=0"],
    "answers{kind:order,was:fresh}": [`count==${KEYS}`],
    "answers{was:unknown}": ["count>0"],
    "answers{was:unexpected}": ["count==0"],
    "answers{was:reused}": ["count==0"],
    checks: ["rate==1"],
    ...UNBROKEN,
    ...BALANCED,
    shop_orders: [`value==${KEYS}`],
    provider_charges: [`value==${KEYS}`],
  },
};

export const handleSummary = summaryOf("03 Takeover");

export function setup(): Promise<Books> {
  return openBooks();
}

export default counted(async ({ run, products: [product] }: Books) => {
  const number = Math.floor(scenario.iterationInTest / SENDERS);
  const name = `${run}-${number}`;
  const isStalled = number % 2 === 0;
  const order = await postUntilFinal(orderOf(product!, name));
  if (order.id === "") return;

  const method = `pm_sandbox_slow_${isStalled ? STALLED_MS : SLOW_MS}`;
  const payment = paymentOf(order.id, { name, method });
  const paid = await postUntilFinal(payment);
  if (paid.id === "") return;
  const key = await read(`/idempotency-keys/${payment.key}`);

  generation.add(Number(key["generation"]), { kind: isStalled ? "stalled" : "slow" });
  check(paid, {
    "every sender hears that it is paid": ({ json }) => json["status"] === "succeeded",
    "the key leads to this payment": ({ id }) => key["location"] === `/payments/${id}`,
  });
});

export function teardown(books: Books): Promise<void> {
  return closeBooks(books);
}
