import { OPERATOR, type Shop } from "../demo-shop.ts";
import { inBatches } from "./batches.ts";
import type { Client } from "./client.ts";

/** Enough for a lease to run out many times over. */
const MAX_TRIES = 200;

/**
 * Brings everything to its end, once nothing fails any more: the reconciler first, where there is something for it, and
 * then every request that was ever sent again, until its key has a definite answer for it.
 *
 * @returns how many payments and refunds were unsettled at the end, and how many still were after the reconciler.
 */
export async function settle(client: Client, { shop, url }: { shop: Shop; url: string }) {
  const atTheEnd = await unsettled(shop);
  if (atTheEnd > 0) await fetch(`${url}/cdn-cgi/local/scheduled`);
  const afterReconciler = await unsettled(shop);
  await inBatches([...client.sent.values()], (request) =>
    client.sendUntilDecided(request, { client: "at last", tries: MAX_TRIES }),
  );
  return { atTheEnd, afterReconciler };
}

async function unsettled(shop: Shop): Promise<number> {
  const { json } = await shop.get(OPERATOR, "/admin/unsettled");
  return (json["data"] as unknown[]).length;
}
