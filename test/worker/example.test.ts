import { expect, test } from "vitest";

import { openShop, shelve } from "./shop.ts";
import { setPrice } from "./set-price.ts";

// Goal: the mutation that the README tells a reader to write works as it stands there.

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
