import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { expect, test } from "vitest";

import { begin, commands, conclude } from "./model-commands.ts";
import { seen, World } from "./model-compare.ts";
import { openService } from "./model-service.ts";

// Goal: the service does what a small model of it says (model-ledger.ts and model-shop.ts, written from the rules and not
// from the code), over long sequences of requests, retries, reused keys, lost messages, owners that stall and go on too
// late, takeovers, sweeps and reconciliations. Method: after each command, the answer and every row are compared.
// When it fails, fast-check prints the shortest sequence it finds, and what repeats it: `seed` and `path` (for fc.assert) and
// `replayPath` (for fc.commands).
// `MODEL_RUNS=1000 npx vitest run --project worker test/worker/model.test.ts` tries more, and shows how often what happened.

const { MODEL_RUNS } = env as { MODEL_RUNS?: string };
const RUNS = Number(MODEL_RUNS || 24);
/** For all runs, and for making a failure small; what is the smallest by then is reported. */
const LIMIT_MS = 60_000 + 1_000 * RUNS;

/** Each must be met, or the sequences are not about what they should be about. */
const OUTCOMES = [
  "200 done",
  "201 done",
  "201 done, replayed",
  "402 card_declined",
  "404 not_found",
  "409 idempotency_key_in_progress",
  "409 insufficient_stock",
  "409 order_not_cancellable",
  "409 order_not_payable",
  "409 payment_in_progress",
  "409 payment_not_refundable",
  "409 sku_taken",
  "422 idempotency_key_reused",
  "422 refund_exceeds_payment",
  "422 unknown_product",
  "503 outcome_unknown",
  "503 service_unavailable",
  "a claim is taken over",
  "a refund",
  "a refusal, replayed",
  "a stalled owner does not get through",
  "a stalled owner gets through",
  "a stalled owner is overruled",
  "a sweep",
  "an owner stalls",
  "the reconciler settles",
];
/** In the mean each is met a dozen times. Should chance leave one out, as many runs are made again. */
const MAX_ROUNDS = 5;

test(
  "whatever is asked, and whatever goes wrong, the service does what the model says",
  { timeout: MAX_ROUNDS * LIMIT_MS },
  async () => {
    const property = fc.asyncProperty(commands, async (sequence) => {
      const service = await openService();
      const world = new World(service.clock.now());
      try {
        await begin(world, service);
        await fc.asyncModelRun(() => ({ model: world, real: service }), sequence);
        await conclude(world, service);
      } finally {
        await service.close();
      }
    });

    const missing = () => OUTCOMES.filter((outcome) => !seen.has(outcome));
    for (let round = 1; round <= MAX_ROUNDS && missing().length > 0; round++) {
      const plugins = [fc.interruptAfterTimeLimit(LIMIT_MS)];
      await fc.assert(property, { numRuns: RUNS, plugins });
    }

    const counts = [...seen].map(([what, count]) => `${what}: ${count}`);
    if (MODEL_RUNS) console.log(counts.toSorted((a, b) => a.localeCompare(b)).join("\n"));
    expect(missing()).toEqual([]);
  },
);
