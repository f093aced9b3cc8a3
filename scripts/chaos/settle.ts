import { OPERATOR, type Shop } from "../demo-shop.ts";
import type { Client } from "./client.ts";

/** Enough for a lease to run out many times over. */
const MAX_TRIES = 200;
/** How many are sent, or asked about, at once. */
const BATCH_SIZE = 16;

/**
 * Brings everything to its end, once nothing fails any more: the reconciler first, where there is something for it, and
 * then every request that was ever sent again, until its key has a definite answer for it.
 *
 * @returns how many payments and refunds the reconciler has settled.
 */
export async function settle(client: Client, { shop, url }: { shop: Shop; url: string }) {
  const before = await unsettled(shop);
  if (before > 0) await fetch(`${url}/cdn-cgi/local/scheduled`);
  const reconciled = before - (await unsettled(shop));
  await inBatches([...client.sent.values()], (request) =>
    client.sendUntilDecided(request, { client: "at last", tries: MAX_TRIES }),
  );
  return reconciled;
}

async function unsettled(shop: Shop): Promise<number> {
  const { json } = await shop.get(OPERATOR, "/admin/unsettled");
  return (json["data"] as unknown[]).length;
}

export async function inBatches<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let i = 0; i < items.length; i += BATCH_SIZE) {
    results.push(...(await Promise.all(items.slice(i, i + BATCH_SIZE).map(work))));
  }
  return results;
}
