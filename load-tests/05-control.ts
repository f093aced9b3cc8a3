// Lesson 5: the control group.
//
// Goal: the storm of lesson 2 is one that does harm. A milder one, five identical requests at once, is let loose on the order
// endpoint done the usual ways, src/lab, and this run fails unless duplicates are seen: if none are, lesson 2 has proved
// nothing. Without a key, and with one that is looked up before it is stored, a storm is enough. The other two claim their
// key in one statement; for them an owner has to die or to stall, as `npm run explore:mutants` makes it. The service must
// have LAB=on, and a database that is not needed any more: its audit is red from now on, and rightly so.
// By hand: `npm start -- --env load --var LAB:on`
import { scenario } from "k6/execution";
import { Gauge } from "k6/metrics";
import type { Options } from "k6/options";

import { type Books, closeBooks, openBooks, ordersOf } from "./books.ts";
import { counted, UNBROKEN } from "./iteration.ts";
import { positive } from "./settings.ts";
import { orderOf, postUntilFinal } from "./shop.ts";
import { summaryOf } from "./summary.ts";

const ENDPOINTS = ["select-then-insert", "no-key", "two-transactions", "unfenced"];
const VUS = positive("VUS", 10);
/** At each of the endpoints. */
const KEYS = positive("KEYS", 50);
/** Identical requests at once. More of them queue up, and those behind find that the first has ended. */
const BURST = positive("BURST", 5);

const duplicates = new Gauge("duplicates");

export const options: Options = {
  scenarios: {
    storm: {
      executor: "shared-iterations",
      vus: VUS,
      iterations: ENDPOINTS.length * KEYS,
      maxDuration: "30m",
    },
  },
  teardownTimeout: "5m",
  thresholds: {
    "duplicates{endpoint:no-key}": [`value==${KEYS * BURST - KEYS}`],
    "duplicates{endpoint:select-then-insert}": ["value>0"],
    "duplicates{endpoint:two-transactions}": ["value>=0"],
    "duplicates{endpoint:unfenced}": ["value>=0"],
    "answers{was:unexpected}": ["count==0"],
    ...UNBROKEN,
    books_read: ["value==1"],
    // Orders that no key of the ledger stands behind.
    ledger_unexplained: ["value<0"],
    audit_violations: ["value>0"],
  },
};

export const handleSummary = summaryOf("05 Control group");

export function setup(): Promise<Books> {
  return openBooks({ products: ENDPOINTS.length });
}

export default counted(async ({ run, products }: Books) => {
  const number = scenario.iterationInTest;
  const endpoint = number % ENDPOINTS.length;
  const order = {
    ...orderOf(products[endpoint]!, `${run}-${number}`),
    path: `/lab/orders/${ENDPOINTS[endpoint]!}`,
  };
  await Promise.all(Array.from({ length: BURST }, () => postUntilFinal(order)));
});

export async function teardown(books: Books): Promise<void> {
  for (const [number, endpoint] of ENDPOINTS.entries()) {
    const ordered = await ordersOf(books.products[number]!);
    duplicates.add(ordered - KEYS, { endpoint });
  }
  await closeBooks(books);
}
