// `npm run demo`: shows on a fresh local service that an order is placed, and paid, exactly once, whatever its callers do.
// Exit code 0 only if every claim holds.
import { join } from "node:path";

import {
  auditAll,
  loseReply,
  payUnderManyKeys,
  payUnderOneKey,
  stallPayment,
} from "./demo-payments.ts";
import { ACME, DEMO_SETTINGS, GLOBEX, oneOf, openShop, type Shop } from "./demo-shop.ts";
import { type DemoPlace, startOwner } from "./demo-stalled.ts";
import { endProgress, holds, progress, type Row, tableOf } from "./demo-table.ts";
import { prepareDatabase, readDatabase, startLocalService } from "./local-service.ts";
import { argumentsOf, main } from "./main.ts";

const SENDERS = 200;
const STORM_KEY = "demo-storm";

argumentsOf({});

await main({ name: "demo", onInterrupt: endProgress }, (directory) =>
  // wrangler's own temporary files go along with the rest.
  prove({ persistTo: join(directory, "state"), tmpDir: directory }).finally(endProgress),
);

async function prove(place: DemoPlace): Promise<number> {
  progress("Preparing a fresh database and starting the service on it ...");
  await prepareDatabase(place);
  const { url } = await startLocalService({ ...place, vars: DEMO_SETTINGS });
  const shop = openShop(url);

  progress(`Sending one order ${SENDERS} times at once ...`);
  const rows = await sendAtOnce(shop);
  progress("Sending another order under the same key, and the same key from another account ...");
  rows.push(await reuseKey(shop), await shareKey(shop));
  progress("Letting the owner of a claim stall, and waiting for its lease to end ...");
  rows.push(...(await takeOver(shop, place)));
  progress("Paying one order 50 times at once, under one key and under 50 ...");
  rows.push(await payUnderOneKey(shop), await payUnderManyKeys(shop));
  progress("Letting the owner of a payment stall, and losing the provider's reply to another ...");
  rows.push(...(await stallPayment(shop, place)), await loseReply(shop));
  progress("Counting what is in the database and in the provider's books ...");
  rows.push(await countRows(shop, place), await auditAll(shop));

  endProgress();
  console.log(`\n${tableOf(rows)}\n\n${conclusion(rows)}`);
  return rows.every(holds) ? 0 : 1;
}

async function sendAtOnce(shop: Shop): Promise<Row[]> {
  const order = { account: ACME, path: "/orders", key: STORM_KEY, body: oneOf(ACME, "storm") };
  const stockBefore = await shop.stockOf(ACME);
  const answers = await Promise.all(
    Array.from({ length: SENDERS }, () => shop.postUntilFinal(order)),
  );
  const firsts = answers.map(({ first }) => first);
  const executed = firsts.filter((answer) => answer.status === 201 && !answer.isReplay).length;
  const replayed = firsts.filter((answer) => answer.status === 201 && answer.isReplay).length;
  const told = firsts.filter((a) => a.json["error"] === "idempotency_key_in_progress").length;
  const succeeded = answers.filter(({ last }) => last.status === 201).length;
  const bodies = new Set(answers.map(({ last }) => last.bytes)).size;
  const orders = await shop.ordersWith(ACME, "storm");
  const sold = stockBefore - (await shop.stockOf(ACME));
  return [
    {
      claim: `One order, sent ${SENDERS} times at once, is executed once`,
      expected: `1 x 201, ${SENDERS - 1} x in progress or replay`,
      seen: `${executed} x 201, ${told + replayed} x in progress or replay`,
      note: `${replayed} replays`,
    },
    {
      claim: "After retries every sender has the same bytes",
      expected: `${SENDERS} x 201, 1 body`,
      seen: `${succeeded} x 201, ${bodies} body`,
    },
    {
      claim: "It left one order, stock down once",
      expected: "1 order, stock -1",
      seen: `${orders} order, stock -${sold}`,
    },
  ];
}

async function reuseKey(shop: Shop): Promise<Row> {
  const other = { account: ACME, path: "/orders", key: STORM_KEY, body: oneOf(ACME, "reuse") };
  const { status, json } = await shop.post(other);
  const orders = await shop.ordersWith(ACME, "reuse");
  return {
    claim: "The same key with another body is refused",
    expected: "422 idempotency_key_reused, 0 orders",
    seen: `${status} ${String(json["error"])}, ${orders} orders`,
  };
}

async function shareKey(shop: Shop): Promise<Row> {
  const orders = [ACME, GLOBEX].map((account) => {
    return { account, path: "/orders", key: "demo-shared", body: oneOf(account, "shared") };
  });
  const answers = await Promise.all(orders.map((order) => shop.post(order)));
  const counts = await Promise.all(orders.map(({ account }) => shop.ordersWith(account, "shared")));
  const ids = new Set(answers.map(({ json }) => json["id"])).size;
  return {
    claim: "The same key from two accounts is two keys",
    expected: "201 and 201, 1 + 1 orders, 2 ids",
    seen: `${answers.map(({ status }) => status).join(" and ")}, ${counts.join(" + ")} orders, ${ids} ids`,
  };
}

async function takeOver(shop: Shop, place: DemoPlace): Promise<Row[]> {
  const order = {
    account: ACME,
    path: "/orders",
    key: "demo-takeover",
    body: oneOf(ACME, "takeover"),
  };
  const stockBefore = await shop.stockOf(ACME);
  const owner = await startOwner(place, order);

  const { first, last } = await shop.postUntilFinal(order);
  const { json: key } = await shop.get(ACME, `/idempotency-keys/${order.key}`);

  const { outcome, created: lateOrder } = await owner.wakeUp();
  const late = await shop.get(ACME, `/orders/${lateOrder}`);
  const replay = await shop.post(order);
  const orders = await shop.ordersWith(ACME, "takeover");
  const sold = stockBefore - (await shop.stockOf(ACME));

  const leaseLeftMs = Number(first.json["takeover_after_ms"]);
  const lease = leaseLeftMs > 0 ? "lease left" : "no lease left";
  const body = replay.isReplay && replay.bytes === last.bytes ? "same answer" : "another answer";
  return [
    {
      claim: "An owner stalls: a retry is told to wait",
      expected: "409 idempotency_key_in_progress, lease left",
      seen: `${first.status} ${String(first.json["error"])}, ${lease}`,
      note: `${leaseLeftMs} ms`,
    },
    {
      claim: "Once the lease has ended, a retry takes over",
      expected: "201, not a replay, generation 2",
      seen: `${last.status}, ${last.isReplay ? "a replay" : "not a replay"}, generation ${String(key["generation"])}`,
    },
    {
      claim: "The stalled owner goes on and cannot commit",
      expected: "fence_lost, its order 404, same answer",
      seen: `${outcome}, its order ${late.status}, ${body}`,
    },
    {
      claim: "Both together left one order, stock down once",
      expected: "1 order, stock -1",
      seen: `${orders} order, stock -${sold}`,
    },
  ];
}

/** Not from what was answered, nor from what this script counted: from the rows. */
async function countRows({ keysSent }: Shop, place: DemoPlace): Promise<Row> {
  const completed = `FROM idempotency_keys AS k WHERE k.request_method = 'POST' AND k.request_path = '/orders'
    AND k.status = 'completed' AND k.response_status = 201`;
  const [count] = await readDatabase<{ keys: number; orders: number; pairs: number }>(
    `SELECT (SELECT count(*) ${completed}) AS keys, (SELECT count(*) FROM orders) AS orders,
      (SELECT count(*) ${completed} AND EXISTS (
        SELECT 1 FROM orders AS o WHERE o.id = 'ord_' || k.operation_id AND o.account_id = k.principal
      )) AS pairs`,
    place,
  );
  const n = keysSent.size;
  return {
    claim: "In the database: keys sent = keys completed = orders",
    expected: `${n} = ${n} = ${n}, ${n} pairs`,
    seen: `${n} = ${count!.keys} = ${count!.orders}, ${count!.pairs} pairs`,
  };
}

function conclusion(rows: readonly Row[]): string {
  const failed = rows.filter((row) => !holds(row)).length;
  return failed === 0
    ? `All ${rows.length} claims hold: duplicates at once, a reused key, an owner who stalls and a reply that is lost neither buy nor charge twice.`
    : `${failed} of ${rows.length} claims do not hold: this service does not act exactly once.`;
}
