import { createClient } from "../../src/client/client.ts";

interface Caller {
  baseUrl: string;
  apiKey: string;
  items: { product_id: string; quantity: number }[];
  store: (key: string) => Promise<void>;
}

/** The README's own example: places an order, however often it has to be sent. */
export async function placeOrder({ baseUrl, apiKey, items, store }: Caller): Promise<string> {
  const shop = createClient({ baseUrl, apiKey });

  const placing = shop.operation((api) => api.orders.$post({ json: { items } }));
  await store(placing.key);
  const outcome = await placing.send();
  switch (outcome.kind) {
    case "done":
      return outcome.body.id; // the order, however many tries it took
    case "refused":
      return outcome.problem.error; // the service's final no, for example "insufficient_stock"
    case "outcome_unknown":
      return outcome.key; // send again later, or after a restart: shop.withKey(key, …).send()
  }
}
