import { setTimeout as sleep } from "node:timers/promises";

import { ACME, type Answer, GLOBEX, OPERATOR, type Shop } from "../demo-shop.ts";
import { inBatches } from "./batches.ts";

/** As many as one page of a list holds, and the most pages that are read. */
const ORDERS_LIMIT = 100;
const CHARGES_LIMIT = 1_000;
const MAX_PAGES = 1_000;
/** An account that asks too much is turned away, for a minute at most. */
const BUSY_PAUSE_MS = 1_000;
const MAX_BUSY_PAUSES = 90;

export type Books = Awaited<ReturnType<typeof readBooks>>;
/** Something as the service shows it. */
export type Shown = Record<string, unknown> & { id: string; status: string };

/** What the shop shows of itself, and the provider of its charges. */
export async function readBooks(shop: Shop) {
  const orders: Shown[] = [];
  const payments: Shown[] = [];
  for (const account of [ACME, GLOBEX]) {
    const own = await readPages(ORDERS_LIMIT, async (last) => {
      const after = last === undefined ? "" : `&starting_after=${last.id}`;
      return dataOf(await ask(shop, account, `/orders?limit=${ORDERS_LIMIT}${after}`));
    });
    orders.push(...own);
    const paid = await inBatches(own, ({ id }) => ask(shop, account, `/orders/${id}/payments`));
    payments.push(...paid.flatMap(dataOf));
  }
  const charges = await readPages(CHARGES_LIMIT, async (last) => {
    const before = last === undefined ? "" : `&before=${String(last["seq"])}`;
    return dataOf(
      await ask(shop, OPERATOR, `/admin/sandbox/charges?limit=${CHARGES_LIMIT}${before}`),
    );
  });
  return { orders, payments, charges };
}

/** Asks again while the service is too busy to say. */
export async function ask(shop: Shop, who: { apiKey: string }, path: string): Promise<Answer> {
  for (let pauses = 0; ; pauses++) {
    const answer = await shop.get(who, path);
    if (answer.status === 200) return answer;
    if (answer.status !== 429 || pauses === MAX_BUSY_PAUSES)
      throw new Error(`GET ${path}: ${answer.bytes}`);
    await sleep(BUSY_PAUSE_MS);
  }
}

function dataOf({ json }: Answer): Shown[] {
  return json["data"] as Shown[];
}

async function readPages(
  size: number,
  read: (last: Shown | undefined) => Promise<Shown[]>,
): Promise<Shown[]> {
  const all: Shown[] = [];
  for (let page = 0; page < MAX_PAGES; page++) {
    const found = await read(all.at(-1));
    all.push(...found);
    if (found.length < size) return all;
  }
  throw new Error(`there are more than ${MAX_PAGES} pages`);
}
