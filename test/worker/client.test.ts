import { expect, test } from "vitest";

import { numbersFrom } from "../../scripts/random.ts";
import {
  createClient,
  type Describe,
  type Operation,
  type Outcome,
} from "../../src/client/client.ts";
import { brokenGuarantees, chargesOf, paymentsOf, statusOf } from "./payments.ts";
import { openShop, ordersOf, shelve, type Shop, sql, stockOf } from "./shop.ts";

// Goal: a caller that keeps one key per operation ends every operation with an answer and one effect, over a network
// that loses three in ten requests and three in ten answers, and delays and duplicates others. One that makes its key
// inside the loop, over the same network, does not. A failure names the seed, which says what the network does next; with
// fifty operations at once it does not say to whom.

const OPERATIONS = 2000;
/** How many of the orders are paid, too. */
const PAYMENTS = 100;
/** Enough for the control to go wrong many times over. */
const CONTROL_OPERATIONS = 300;
const AT_ONCE = 50;
/** Past this many sends of three tries each, it is not the network that keeps an operation from its end. */
const MAX_SENDS = 50;
const SEED = Number.parseInt(crypto.randomUUID().slice(0, 6), 16);

type Client = ReturnType<typeof createClient>;
type Carry = <Wire>(client: Client, describe: Describe<Wire>) => Promise<Outcome<Wire>>;

/** One key per operation. Where its sends end without an answer, the caller restarts and resumes it by the key. */
const keyBeforeTheLoop: Carry = (client, describe) => {
  const first = client.operation(describe);
  return untilKnown((send) => (send === 1 ? first : client.withKey(first.key, describe)));
};

/** The common bug: what is sent again is another operation. */
const keyInsideTheLoop: Carry = (client, describe) => untilKnown(() => client.operation(describe));

async function untilKnown<Wire>(next: (send: number) => Operation<Wire>): Promise<Outcome<Wire>> {
  for (let send = 1; ; send++) {
    const outcome = await next(send).send();
    if (outcome.kind !== "outcome_unknown" || send === MAX_SENDS) return outcome;
  }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Stands between the client and the shop, as the seed has it. */
function badNetwork(shop: Shop, random: () => number) {
  const late: Promise<unknown>[] = [];
  const loseMaybe = () => {
    if (random() < 0.3) throw new TypeError("fetch failed");
  };
  const fetch = async (request: Request) => {
    loseMaybe();
    if (random() < 0.1) {
      const duplicate = request.clone();
      late.push(pause(random() * 50).then(() => shop.send(duplicate)));
    }
    if (random() < 0.2) await pause(random() * 20);
    const { status, headers, body } = await shop.send(request);
    loseMaybe();
    return new Response(body, { status, headers });
  };
  return { fetch, quiet: () => Promise.all(late) };
}

async function placeOrders(operations: number, carry: Carry) {
  const RATE_LIMITER = { limit: async () => ({ success: true }) };
  const shop = await openShop({ bindings: { RATE_LIMITER } });
  const units = 10 * operations;
  const product = await shelve(shop.account.id, { units });
  const random = numbersFrom(SEED);
  const network = badNetwork(shop, random);
  const client = createClient({
    baseUrl: "http://shop.test",
    apiKey: shop.account.apiKey,
    tries: 3,
    firstBackoffMs: 2,
    fetch: network.fetch,
    random,
  });
  const references = Array.from({ length: operations }, (_, i) => `order-${i}`);
  const outcomes = await allOf(references, (reference) => {
    const items = [{ product_id: product, quantity: 1 + Math.floor(random() * 3) }];
    return carry(client, (api) => api.orders.$post({ json: { items, reference } }));
  });
  return { shop, client, network, product, units, references, outcomes };
}

async function allOf<Item, Result>(items: Item[], work: (item: Item) => Promise<Result>) {
  const results: Result[] = [];
  const queue = items.entries();
  const worker = async () => {
    for (const [i, item] of queue) results[i] = await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return results;
}

/** What the operations have made. An outcome that is not an answer fails the test. */
function bodiesOf<Wire>(outcomes: Outcome<Wire>[]): Wire[] {
  return outcomes.map((outcome) => {
    if (outcome.kind === "done") return outcome.body;
    throw new Error(`with seed ${SEED}`, { cause: outcome });
  });
}

test(`${OPERATIONS} operations over a bad network: as many answers, keys and orders, and no duplicate`, async () => {
  const { shop, client, network, ...placed } = await placeOrders(OPERATIONS, keyBeforeTheLoop);
  const orders = bodiesOf(placed.outcomes);
  const paid = orders.slice(0, PAYMENTS).map(({ id }) => id);
  const json = { payment_method: "pm_card_visa" };
  const payments = bodiesOf(
    await allOf(paid, (id) =>
      keyBeforeTheLoop(client, (api) => api.orders[":id"].payments.$post({ param: { id }, json })),
    ),
  );
  await network.quiet();

  const context = `with seed ${SEED}`;
  const rows = await ordersOf(shop.account.id);
  expect(rows, context).toHaveLength(OPERATIONS);
  expect(new Set(rows.map(({ reference }) => reference)), context).toEqual(
    new Set(placed.references),
  );
  expect(new Set(rows.map(({ id }) => id)), context).toEqual(new Set(orders.map(({ id }) => id)));
  const sold = orders.flatMap(({ items }) => items).reduce((sum, item) => sum + item.quantity, 0);
  expect(await stockOf(placed.product), context).toBe(placed.units - sold);
  const keys = sql`SELECT request_path AS path, status, count(*) AS keys FROM idempotency_keys
    WHERE principal = ${shop.account.id} GROUP BY request_path = '/orders', status ORDER BY keys`;
  expect((await keys.all()).results, context).toMatchObject([
    { status: "completed", keys: PAYMENTS },
    { path: "/orders", status: "completed", keys: OPERATIONS },
  ]);

  for (const [i, order] of paid.entries()) {
    expect(await paymentsOf(order), context).toMatchObject([
      { id: payments[i]!.id, status: "succeeded" },
    ]);
    expect(await chargesOf(order), context).toHaveLength(1);
    expect(await statusOf(order), context).toBe("paid");
  }
  expect(await brokenGuarantees(), context).toEqual([]);
  // The network did what it is there for.
  expect(
    placed.outcomes.filter((outcome) => outcome.kind === "done" && outcome.isReplayed).length,
  ).toBeGreaterThan(OPERATIONS / 10);
});

test("the control: over the same network, a key made inside the loop buys twice", async () => {
  const { shop, network, references, outcomes } = await placeOrders(
    CONTROL_OPERATIONS,
    keyInsideTheLoop,
  );
  await network.quiet();

  expect(bodiesOf(outcomes)).toHaveLength(CONTROL_OPERATIONS);
  const rows = await ordersOf(shop.account.id);
  expect(new Set(rows.map(({ reference }) => reference)).size).toBe(references.length);
  expect(rows.length - references.length, `with seed ${SEED}`).toBeGreaterThan(0);
});
