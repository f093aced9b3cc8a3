// Lesson 6: the long run.
//
// Goal: the ledger stays as small as rate x window, however long the load goes on, because the sweep in the wake of the
// requests keeps pace; and no key is forgotten inside its window. Run it for hours, against a service with a short
// window (RETENTION_MS), and for much longer than that window: before it has passed there is nothing to be swept.
// By hand: `npm start -- --env load --var RETENTION_MS:20000 --var PENDING_TTL_MS:5000 --var PROVIDER_TIMEOUT_MS:2000`
import { check } from "k6";
import { scenario } from "k6/execution";
import { Trend } from "k6/metrics";
import type { Options } from "k6/options";

import { BALANCED, type Books, closeBooks, openBooks, readLedger } from "./books.ts";
import { counted, UNBROKEN } from "./iteration.ts";
import { positive, text } from "./settings.ts";
import { orderOf, pause, paymentOf, post, postUntilFinal } from "./shop.ts";
import { summaryOf } from "./summary.ts";

const RATE = positive("RATE", 20);
const VUS = positive("VUS", 50);
const DURATION = text("DURATION", "10m");
/** Of the service. */
const RETENTION_MS = positive("RETENTION_MS", 20_000);
/** A sweep that found nothing rests for ten seconds, and a row waits until one comes by. */
const SWEEP_PAUSE_MS = 10_000;
/** For a machine that is busy with something else. */
const SLACK_MS = 10_000;
/** An order and its payment. */
const KEYS_PER_CUSTOMER = 2;
const MOST_ROWS = Math.ceil(
  (RATE * KEYS_PER_CUSTOMER * (RETENTION_MS + SWEEP_PAUSE_MS + SLACK_MS)) / 1000,
);
const WATCH_PAUSE_MS = 1_000;

const rows = new Trend("ledger_rows");
const lagMs = new Trend("eviction_lag_ms", true);

export const options: Options = {
  scenarios: {
    customers: {
      executor: "constant-arrival-rate",
      exec: "customer",
      rate: RATE,
      timeUnit: "1s",
      duration: DURATION,
      preAllocatedVUs: VUS,
      maxVUs: VUS,
    },
    watch: { executor: "constant-vus", exec: "watch", vus: 1, duration: DURATION },
  },
  teardownTimeout: "5m",
  thresholds: {
    ledger_rows: ["max>0", `max<=${MOST_ROWS}`],
    eviction_lag_ms: [`max<${SWEEP_PAUSE_MS + SLACK_MS}`],
    ledger_evicted: ["value>0"],
    "answers{kind:order,was:fresh}": ["count>0"],
    "answers{was:unexpected}": ["count==0"],
    checks: ["rate==1"],
    ...UNBROKEN,
    // Shown, not demanded: who did not come because all VUs were busy.
    dropped_iterations: ["count>=0"],
    ...BALANCED,
  },
};

export const handleSummary = summaryOf("06 Soak");

export function setup(): Promise<Books> {
  return openBooks();
}

export const customer = counted(async ({ run, products: [product] }: Books) => {
  const name = `${run}-${scenario.iterationInTest}`;
  const startedAt = Date.now();
  const order = await postUntilFinal(orderOf(product!, name));
  if (order.id === "") return;
  const paid = await postUntilFinal(paymentOf(order.id, { name }));
  const retry = await post(orderOf(product!, name));
  check(retry, {
    "a key is remembered inside its window": ({ was, bytes }) =>
      (was === "replay" && bytes === order.bytes) || Date.now() - startedAt > RETENTION_MS,
  });
  check(paid, { "the order is paid": ({ json }) => json["status"] === "succeeded" });
});

export const watch = counted(async ({ ledger }: Books) => {
  const now = await readLedger();
  // Old rows of a database that was used before do not count, as long as they are there.
  rows.add(now.rows - Math.max(0, ledger.rows - now.evicted + ledger.evicted));
  lagMs.add(now.lagMs);
  await pause(WATCH_PAUSE_MS);
});

export function teardown(books: Books): Promise<void> {
  return closeBooks(books);
}
