// Lesson 4: a day at the shop.
//
// Goal: what each kind of answer costs while all of them happen at once. RATE customers a second come in whether or not
// the service keeps up, as customers do: new orders, retries, duplicates under way, keys used for something else, payments,
// refunds and reads. Most of them are about a few baskets and few about the many, so some keys are hot and most are cold.
// The limits are generous ones for one machine that runs both sides: put your own in their place.
// By hand, on a service without the usual rate limit: `npm start -- --env load`.
import { check } from "k6";
import { scenario } from "k6/execution";
import type { Options } from "k6/options";

import { BALANCED, type Books, closeBooks, openBooks } from "./books.ts";
import { counted, UNBROKEN } from "./iteration.ts";
import { positive, text } from "./settings.ts";
import { type Answer, orderOf, paymentOf, post, postUntilFinal, read } from "./shop.ts";
import { summaryOf } from "./summary.ts";

const RATE = positive("RATE", 30);
const VUS = positive("VUS", 100);
const BASKETS = positive("KEYS", 200);
/** Of two baskets, the one that is asked for more often has the lower number: half of all asks are for the first eighth. */
const SKEW = 3;
/** One basket in ten has a card that is declined. */
const DECLINED_EVERY = 10;
/** All limits of latency times this, for a machine that is busy with something else. */
const PATIENCE = positive("PATIENCE", 1);

const within = (ms: number) => [`p(95)<${ms * PATIENCE}`];

export const options: Options = {
  scenarios: {
    customers: {
      executor: "constant-arrival-rate",
      rate: RATE,
      timeUnit: "1s",
      duration: text("DURATION", "1m"),
      preAllocatedVUs: VUS,
      maxVUs: VUS,
    },
  },
  teardownTimeout: "5m",
  thresholds: {
    "answer_ms{kind:order,was:fresh}": within(500),
    "answer_ms{kind:order,was:replay}": within(300),
    "answer_ms{was:in_progress}": within(300),
    "answer_ms{was:reused}": within(300),
    "answer_ms{kind:payment,was:fresh}": within(1000),
    "answer_ms{kind:refund,was:fresh}": within(1000),
    "http_req_duration{kind:read}": within(500),
    // Nothing is fast that never happened.
    "answers{kind:order,was:fresh}": ["count>0"],
    "answers{kind:order,was:replay}": ["count>0"],
    "answers{was:reused}": ["count>0"],
    "answers{kind:payment,was:fresh}": ["count>0"],
    "answers{kind:refund,was:fresh}": ["count>0"],
    "answers{was:unexpected}": ["count==0"],
    checks: ["rate==1"],
    ...UNBROKEN,
    // Shown, not demanded: who did not come because all VUs were busy. The limits above do not know of them.
    dropped_iterations: ["count>=0"],
    ...BALANCED,
  },
};

export const handleSummary = summaryOf("04 Mixed traffic");

export function setup(): Promise<Books> {
  return openBooks();
}

/** Customers are dealt out, not drawn, so that a short run has some of each kind: no divisor with 100 in common. */
const STRIDE = 37;
/** What a customer may do, by how many of a hundred do it. */
const CUSTOMERS: [share: number, visit: (books: Books) => Promise<unknown>][] = [
  [30, orderSomethingNew],
  [20, (books) => orderBasket(books, pickBasket())],
  [10, orderTwiceAtOnce],
  [5, reuseKey],
  [15, (books) => payBasket(books, pickBasket())],
  [5, refundBasket],
  [15, browse],
];

export default counted(async (books: Books) => {
  let left = (scenario.iterationInTest * STRIDE) % 100;
  const visit = CUSTOMERS.find(([share]) => (left -= share) < 0) ?? CUSTOMERS[0]!;
  await visit[1](books);
});

export function teardown(books: Books): Promise<void> {
  return closeBooks(books);
}

function pickBasket(): number {
  return Math.floor(BASKETS * Math.random() ** SKEW);
}

function newOrder({ run, products: [product] }: Books) {
  return orderOf(product!, `${run}-new-${scenario.iterationInTest}`);
}

async function orderSomethingNew(books: Books): Promise<void> {
  const order = await post(newOrder(books));
  check(order, { "a new key is executed": ({ was }) => was === "fresh" });
}

/** Whoever comes first places it; everybody else has it replayed. */
function orderBasket({ run, products: [product] }: Books, basket: number): Promise<Answer> {
  return postUntilFinal(orderOf(product!, `${run}-basket-${basket}`));
}

async function orderTwiceAtOnce(books: Books): Promise<void> {
  const order = newOrder(books);
  const both = await Promise.all([postUntilFinal(order), postUntilFinal(order)]);
  check(both, {
    "two at once are one order": ([one, other]) => one.bytes === other.bytes,
    "one of them executed": (answers) => answers.filter(({ was }) => was === "fresh").length === 1,
  });
}

async function reuseKey(books: Books): Promise<void> {
  const basket = pickBasket();
  // The key has to be taken, or the other body would take it.
  await orderBasket(books, basket);
  const order = orderOf(books.products[0]!, `${books.run}-basket-${basket}`);
  const reused = await post({ ...order, body: { ...order.body, reference: "something else" } });
  check(reused, { "a key cannot be used for something else": ({ was }) => was === "reused" });
}

async function payBasket(books: Books, basket: number): Promise<Answer> {
  const order = await orderBasket(books, basket);
  if (order.id === "") return order;
  const name = `${books.run}-basket-${basket}`;
  if (!isDeclined(basket)) return postUntilFinal(paymentOf(order.id, { name }));
  const payment = paymentOf(order.id, { name, method: "pm_card_chargeDeclined" });
  return postUntilFinal({ ...payment, outcome: 402 });
}

function isDeclined(basket: number): boolean {
  return basket % DECLINED_EVERY === DECLINED_EVERY - 1;
}

async function refundBasket(books: Books): Promise<void> {
  const picked = pickBasket();
  const basket = isDeclined(picked) ? picked - 1 : picked;
  const payment = await payBasket(books, basket);
  if (payment.id === "") return;
  await postUntilFinal({
    path: `/payments/${payment.id}/refunds`,
    key: `${books.run}-basket-${basket}-refund`,
    body: { amount: 100 },
    kind: "refund",
  });
}

async function browse({ products: [product] }: Books): Promise<void> {
  await read("/orders?limit=20");
  await read(`/products/${product!}`);
}
