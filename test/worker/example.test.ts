import { expect, test, vi } from "vitest";

import { placeOrder } from "./client-example.ts";
import { openShop, ordersOf, shelve } from "./shop.ts";
import { setPrice } from "./set-price.ts";

// Goal: the mutation that the README tells a reader to write, and the caller, work as they stand there.

test("the README's own mutation is exactly-once like every other", async () => {
  const { account, get, post } = await openShop({
    mount: (app, idempotent) => app.openapi(setPrice.route, idempotent(setPrice)),
  });
  const product = await shelve(account.id, { price: 1 });

  const changed = await post(`/products/${product}/price`, { unit_price: 2 }, "k");
  const replay = await post(`/products/${product}/price`, { unit_price: 2 }, "k");
  const unknown = await post("/products/prod_none/price", { unit_price: 2 }, "other");

  expect(changed.json).toEqual({ id: product, unit_price: 2 });
  expect(replay.body).toBe(changed.body);
  expect(replay.headers.get("idempotent-replayed")).toBe("true");
  expect((await get(`/products/${product}`)).json).toMatchObject({ unit_price: 2 });
  expect(unknown.json).toMatchObject({ status: 404, error: "not_found" });
});

test("the README's own caller places one order, though its first answer is lost, and hears a final no", async () => {
  const shop = await openShop();
  const product = await shelve(shop.account.id, { units: 2 });
  const stored: string[] = [];
  let lost = 0;
  const send = async (request: Request) => {
    const { status, headers, body } = await shop.send(request);
    if (lost++ === 0) throw new TypeError("connection lost");
    return new Response(body, { status, headers });
  };
  vi.stubGlobal("fetch", send);
  const caller = {
    baseUrl: "http://shop.test",
    apiKey: shop.account.apiKey,
    items: [{ product_id: product, quantity: 2 }],
    store: async (key: string) => void stored.push(key),
  };

  const id = await placeOrder(caller);
  const refused = await placeOrder(caller);

  expect(refused).toBe("insufficient_stock");
  expect(await ordersOf(shop.account.id)).toMatchObject([{ id }]);
  expect(lost).toBe(3);
  expect(new Set(stored).size).toBe(2);
});
