import { expect, test } from "vitest";

import { numbersFrom } from "../../scripts/random.ts";
import { faultyD1, jitter } from "./faulty-d1.ts";
import {
  brokenGuarantees,
  chargesOf,
  deliver,
  eventsAbout,
  faultyProvider,
  pay,
  paymentsOf,
  placeOrder,
  SECRETS,
  statusOf,
} from "./payments.ts";
import { openShop, type Shop } from "./shop.ts";
import { sandbox } from "./stripe-sandbox.ts";

// Goal: whatever two requests want of one order at the same time, and however their messages interleave, no guarantee
// breaks. Every message to D1 and to the provider waits a little, as the round's seed has it; a failure names the seed.

const ROUNDS = 200;
/** Rounds that run side by side, each on an order of its own. */
const AT_ONCE = 20;
const FIRST_SEED = Number.parseInt(crypto.randomUUID().slice(0, 6), 16);

type Race = (round: { one: Shop; other: Shop; order: string }) => Promise<void>;

async function race(run: Race) {
  const calm = await openShop({ bindings: SECRETS });
  const door = (seed: number) => {
    const always = jitter(numbersFrom(seed));
    const { DB } = faultyD1({ always });
    const { SANDBOX } = faultyProvider({ always });
    return openShop({ account: calm.account, bindings: { ...SECRETS, DB, SANDBOX } });
  };
  const rounds = async (seed: number) => {
    const [one, other] = [await door(seed), await door(-seed)];
    for (let round = 1; round <= ROUNDS / AT_ONCE; round++) {
      await run({ one, other, order: await placeOrder(calm) }).catch((error: unknown) => {
        throw new Error(`round ${round} with seed ${seed}`, { cause: error });
      });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => rounds(FIRST_SEED + i)));
  expect(await brokenGuarantees()).toEqual([]);
}

test(`two keys that pay one order: one charge (${ROUNDS} rounds)`, async () => {
  await race(async ({ one, other, order }) => {
    const key = crypto.randomUUID();
    const answers = await Promise.all([pay(one, order, `${key}-a`), pay(other, order, `${key}-b`)]);

    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 409]);
    expect(await paymentsOf(order)).toHaveLength(1);
    expect(await chargesOf(order)).toHaveLength(1);
    expect(await statusOf(order)).toBe("paid");
  });
});

test(`pay against cancel: paid and charged, or cancelled and not (${ROUNDS} rounds)`, async () => {
  const ends: string[] = [];
  await race(async ({ one, other, order }) => {
    const key = crypto.randomUUID();
    const [paid, cancelled] = await Promise.all([
      pay(one, order, `${key}-pay`),
      other.post(`/orders/${order}/cancel`, undefined, `${key}-cancel`),
    ]);

    const end = `${paid.status} ${cancelled.status} ${await statusOf(order)}`;
    const charges = await chargesOf(order);
    ends.push(end);
    expect([`${end} ${charges.length}`]).toEqual([
      expect.stringMatching(/^(201 409 paid 1|409 200 cancelled 0)$/),
    ]);
  });
  // Both must have happened, or nothing was raced.
  expect(new Set(ends).size).toBe(2);
});

test(`refund against refund: no more is given back than was paid (${ROUNDS} rounds)`, async () => {
  await race(async ({ one, other, order }) => {
    const key = crypto.randomUUID();
    const paid = await pay(one, order, key);
    const path = `/payments/${String(paid.json["id"])}/refunds`;
    const answers = await Promise.all([
      one.post(path, { amount: 600 }, `${key}-a`),
      other.post(path, { amount: 600 }, `${key}-b`),
    ]);

    const [charge] = await sandbox.chargesOf(String(paid.json["id"]));
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 422]);
    expect(charge).toMatchObject({ amountRefunded: 600 });
    expect((await paymentsOf(order))[0]).toMatchObject({ refunded_amount: 600 });
    expect(await statusOf(order)).toBe("partially_refunded");
  });
});

test(`webhook against retry: settled once, one response (${ROUNDS} rounds)`, async () => {
  await race(async ({ one, other, order }) => {
    const key = crypto.randomUUID();
    const method = "pm_sandbox_lost_reply";
    await pay(one, order, key, method);
    const [payment] = await paymentsOf(order);
    const [event] = await eventsAbout(payment!.id);

    const [taken, retry] = await Promise.all([
      deliver(other, event!),
      pay(one, order, key, method),
    ]);
    const replay = await pay(other, order, key, method);

    expect([taken.status, retry.status]).toEqual([200, 201]);
    expect(replay.body).toBe(retry.body);
    expect(await chargesOf(order)).toHaveLength(1);
    expect(await statusOf(order)).toBe("paid");
  });
});
