import { expect, test } from "vitest";

import { ledgerRow, openShop, ordersOf, shelve, stockOf } from "./shop.ts";

test("an order is placed once and its retry is answered byte for byte", async () => {
  const { account, post } = await openShop();
  const product = await shelve(account.id, { units: 5, price: 1250 });
  const body = { items: [{ product_id: product, quantity: 2 }], reference: "basket-1" };

  const first = await post("/orders", body, "k1");
  const retry = await post("/orders", body, "k1");

  expect(first.json).toMatchObject({ status: "pending", total: 2500, currency: "EUR" });
  expect(first.status).toBe(201);
  expect(first.headers.get("idempotent-replayed")).toBe("false");
  expect(first.headers.get("location")).toBe(`/orders/${String(first.json["id"])}`);
  expect(retry.headers.get("idempotent-replayed")).toBe("true");
  expect(retry.headers.get("location")).toBe(first.headers.get("location"));
  expect(retry.headers.get("content-type")).toBe(first.headers.get("content-type"));
  expect([retry.status, retry.body]).toEqual([first.status, first.body]);
  expect(await ordersOf(account.id)).toHaveLength(1);
  expect(await stockOf(product)).toBe(3);
  const row = await ledgerRow(account.id, "k1");
  expect(row).toMatchObject({ status: "completed", generation: 1, response_status: 201 });
  expect(first.json["id"]).toBe(`ord_${row!.operation_id}`);
});
