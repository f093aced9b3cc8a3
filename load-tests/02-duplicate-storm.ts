// Lesson 2: the storm of duplicates.
//
// Goal: whatever is sent at once under one key is done once. Bursts of VUS identical requests share one key after the
// other, first to place an order and then to pay it; one hot key is asked for in every iteration, from the first to the
// last. For each key there is one fresh answer, and the rest are replays of it or told to wait.
// By hand, on a service without the usual rate limit: `npm start -- --env load`.
import { check } from "k6";
import { scenario } from "k6/execution";
import type { Options } from "k6/options";

import { BALANCED, type Books, closeBooks, openBooks } from "./books.ts";
import { counted, UNBROKEN } from "./iteration.ts";
import { positive, text } from "./settings.ts";
import { type KeyedRequest, orderOf, paymentOf, post, postUntilFinal } from "./shop.ts";
import { summaryOf } from "./summary.ts";

/** VUs, and so identical requests at once. */
const BURST = positive("VUS", 50);
const KEYS = positive("KEYS", 200);
/** Where orders are placed. Lesson 5 has what becomes of all this elsewhere. */
const TARGET = text("TARGET", "/orders");

export const options: Options = {
  scenarios: {
    storm: {
      executor: "shared-iterations",
      vus: BURST,
      iterations: KEYS * BURST,
      maxDuration: "1h",
    },
  },
  teardownTimeout: "5m",
  thresholds: {
    "answers{kind:order,was:fresh}": [`count==${KEYS}`],
    "answers{kind:payment,was:fresh}": [`count==${KEYS}`],
    "answers{kind:hot,was:fresh}": ["count==1"],
    // A storm in which nobody met anybody would prove nothing.
    "answers{was:replay}": [`count>${KEYS}`],
    "answers{was:in_progress}": ["count>0"],
    "answers{was:unexpected}": ["count==0"],
    "answers{was:reused}": ["count==0"],
    checks: ["rate==1"],
    ...UNBROKEN,
    ...BALANCED,
    // The hot key pays an order of its own.
    shop_orders: [`value==${KEYS + 1}`],
    provider_charges: [`value==${KEYS + 1}`],
  },
};

export const handleSummary = summaryOf("02 Duplicate storm");

interface Storm extends Books {
  /** Id of the order that the hot key pays. */
  hotOrder: string;
}

export async function setup(): Promise<Storm> {
  const books = await openBooks();
  const order = await post({ ...orderOf(books.products[0]!, `${books.run}-hot`), kind: "setup" });
  return { ...books, hotOrder: order.id };
}

export default counted(async (books: Storm) => {
  await Promise.all([buy(books), payHot(books)]);
});

export function teardown(books: Storm): Promise<void> {
  return closeBooks(books);
}

/** Iterations are numbered across all VUs, so that as many as there are VUs in a row have the same name. */
async function buy({ run, products: [product] }: Storm): Promise<void> {
  const name = `${run}-${Math.floor(scenario.iterationInTest / BURST)}`;
  const order = await sendInStorm({ ...orderOf(product!, name), path: TARGET });
  if (order.id !== "") await sendInStorm(paymentOf(order.id, { name }));
}

/** Whoever executed it sends it once more: the retry of a client that never saw the answer. */
async function sendInStorm(request: KeyedRequest) {
  const answer = await postUntilFinal(request);
  if (answer.was === "fresh") {
    const retry = await post(request);
    check(retry, {
      "a replay has the same bytes": ({ was, bytes }) => was === "replay" && bytes === answer.bytes,
    });
  }
  return answer;
}

async function payHot({ run, hotOrder }: Storm): Promise<void> {
  await postUntilFinal({ ...paymentOf(hotOrder, { name: `${run}-hot` }), kind: "hot" });
}
