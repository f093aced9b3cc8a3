import { expect, test } from "vitest";

import { faultyD1, gate, passes } from "./faulty-d1.ts";
import { ledgerRow, openShop, ordersOf, shelve, sql, stockOf } from "./shop.ts";

const item = (product: string, quantity = 1) => ({ product_id: product, quantity });
const order = (product: string, quantity = 1) => ({ items: [item(product, quantity)] });

test("case 17: two checkouts that take the last unit at once end in one order and stock 0", async () => {
  // Both read the shelf before either commits, so that only the constraint stands between them and -1.
  const [one, other] = [faultyD1(), faultyD1()];
  const first = await openShop({ bindings: { DB: one.DB } });
  const { account } = first;
  const second = await openShop({ account, bindings: { DB: other.DB } });
  const product = await shelve(account.id, { units: 1 });
  const [commitOne, commitOther] = [gate(), gate()];
  one.next(passes, commitOne.fault);
  other.next(passes, commitOther.fault);

  const answers = Promise.all([
    first.post("/orders", order(product), "a"),
    second.post("/orders", order(product), "b"),
  ]);
  await Promise.all([commitOne.reached, commitOther.reached]);
  commitOne.open();
  commitOther.open();
  const both = (await answers).toSorted((a, b) => a.status - b.status);

  expect(both.map(({ status }) => status)).toEqual([201, 409]);
  expect(both[1]!.json).toMatchObject({
    error: "insufficient_stock",
    products: [{ product_id: product, available: 0 }],
  });
  expect(both[1]!.headers.get("idempotent-replayed")).toBe("false");
  expect(await stockOf(product)).toBe(0);
  expect(await ordersOf(account.id)).toHaveLength(1);
});

test("case 17: 30 checkouts for 10 units at once: 10 orders, 20 refusals, stock 0", async () => {
  const { account, post } = await openShop();
  const product = await shelve(account.id, { units: 10 });

  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, i) => post("/orders", order(product), `k${i}`)),
  );

  const placed = answers.filter(({ status }) => status === 201);
  const refused = answers.filter(({ json }) => json["error"] === "insufficient_stock");
  expect([placed.length, refused.length]).toEqual([10, 20]);
  expect(await stockOf(product)).toBe(0);
  expect(await ordersOf(account.id)).toHaveLength(10);
});

test("an order of several products reserves each, and a refused one reserves none", async () => {
  const { account, post } = await openShop();
  const [mug, tee] = [
    await shelve(account.id, { price: 5 }),
    await shelve(account.id, { units: 1, price: 7 }),
  ];

  const placed = await post("/orders", { items: [item(mug, 3), item(tee)] }, "a");
  const refused = await post("/orders", { items: [item(mug, 3), item(tee)] }, "b");

  expect(placed.json).toMatchObject({
    total: 22,
    items: [
      { product_id: mug, unit_price: 5, quantity: 3, subtotal: 15 },
      { product_id: tee, unit_price: 7, quantity: 1, subtotal: 7 },
    ],
  });
  expect(refused.json).toMatchObject({
    error: "insufficient_stock",
    products: [{ product_id: tee, available: 0 }],
  });
  expect([await stockOf(mug), await stockOf(tee)]).toEqual([97, 0]);
});

test("duplicate lines of one product are summed", async () => {
  const { account, get, post } = await openShop();
  const product = await shelve(account.id, { price: 10 });

  const placed = await post("/orders", { items: [item(product, 2), item(product, 3)] }, "k");
  const read = await get(placed.headers.get("location")!);

  expect(placed.json).toMatchObject({ total: 50, items: [{ quantity: 5, subtotal: 50 }] });
  expect(read.body).toBe(placed.body);
  expect(await stockOf(product)).toBe(95);
});

test("products unknown to the account, another's included, are refused by name", async () => {
  const stranger = await openShop();
  const { account, post } = await openShop();
  const [own, theirs] = [await shelve(account.id), await shelve(stranger.account.id)];

  const answer = await post(
    "/orders",
    { items: [item(own), item(theirs), item("prod_none")] },
    "k",
  );

  expect(answer.json).toMatchObject({
    status: 422,
    error: "unknown_product",
    product_ids: [theirs, "prod_none"],
  });
  expect([await stockOf(own), await stockOf(theirs)]).toEqual([100, 100]);
});

test("an order in two currencies is refused", async () => {
  const { account, post } = await openShop();
  const [eur, usd] = [await shelve(account.id), await shelve(account.id, { currency: "USD" })];

  const answer = await post("/orders", { items: [item(eur), item(usd)] }, "k");

  expect(answer.json).toMatchObject({ status: 422, error: "mixed_currencies" });
  expect((answer.json["currencies"] as string[]).toSorted()).toEqual(["EUR", "USD"]);
});

test("the largest order that is accepted fits the limit of stored responses", async () => {
  const { post } = await openShop();
  // Quotes take two bytes each as JSON, so this is the longest name there can be.
  const name = '"'.repeat(59);
  const create = (i: number) =>
    post(
      "/products",
      { sku: `S${i}`, name, unit_price: 999_999_999_999, currency: "EUR", stock: 1_000_000 },
      `p${i}`,
    );
  const products = await Promise.all(Array.from({ length: 50 }, (_, i) => create(i)));
  const items = products.map(({ json }) => item(String(json["id"]), 180));

  const placed = await post("/orders", { items, reference: "\u0001".repeat(255) }, "k");
  const tooLong = await post(
    "/products",
    { sku: "S", name: `${name}"`, unit_price: 1, currency: "EUR", stock: 1 },
    "long",
  );

  expect(placed.status).toBe(201);
  expect(placed.json["items"]).toHaveLength(50);
  expect(tooLong.json).toMatchObject({ status: 400, errors: [{ path: "/name" }] });
});

test("a total past what JSON numbers carry exactly is refused, and one just below is right", async () => {
  const { account, post } = await openShop();
  const dear = await shelve(account.id, { units: 1_000_000, price: 999_999_999_999 });

  const tooMuch = await post("/orders", order(dear, 9_008), "a");
  const justBelow = await post("/orders", order(dear, 9_007), "b");

  expect(tooMuch.json).toMatchObject({ status: 422, error: "order_total_too_large" });
  expect(justBelow.json).toMatchObject({ total: 9_006_999_999_990_993 });
});

test("a cancelled order returns its stock, once, however often it is asked", async () => {
  const { account, get, post } = await openShop();
  const [mug, tee] = [await shelve(account.id), await shelve(account.id)];
  const placed = await post("/orders", { items: [item(mug, 3), item(tee, 2)] }, "place");
  const path = `${placed.headers.get("location")}/cancel`;

  const cancelled = await post(path, undefined, "cancel");
  const replay = await post(path, undefined, "cancel");
  const again = await post(path, undefined, "cancel again");

  expect(cancelled.json).toEqual({ ...placed.json, status: "cancelled" });
  expect(replay.body).toBe(cancelled.body);
  expect(again.json).toMatchObject({ error: "order_not_cancellable", order_status: "cancelled" });
  expect([await stockOf(mug), await stockOf(tee)]).toEqual([100, 100]);
  expect((await get(placed.headers.get("location")!)).json).toMatchObject({ status: "cancelled" });
});

test("20 keys that cancel one order at once return its stock once", async () => {
  const { account, post } = await openShop();
  const product = await shelve(account.id);
  const placed = await post("/orders", order(product, 10), "place");
  const path = `${placed.headers.get("location")}/cancel`;

  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => post(path, undefined, `c${i}`)),
  );

  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  expect(answers.filter(({ json }) => json["error"] === "order_not_cancellable")).toHaveLength(19);
  expect(await stockOf(product)).toBe(100);
});

test("a product is created once, with its initial stock on the books", async () => {
  const { account, get, post } = await openShop();
  const body = { sku: "MUG", name: "Müg ☕", unit_price: 0, currency: "EUR", stock: 5 };

  const created = await post("/products", body, "k");
  const replay = await post("/products", body, "k");
  const read = await get(created.headers.get("location")!);
  const id = String(created.json["id"]);
  const booked = await sql`SELECT delta FROM stock_adjustments WHERE product_id = ${id}`.all();

  expect(created.status).toBe(201);
  expect(created.json).toMatchObject({
    ...body,
    id: `prod_${(await ledgerRow(account.id, "k"))!.operation_id}`,
  });
  expect([replay.body, read.body]).toEqual([created.body, created.body]);
  expect(booked.results).toEqual([{ delta: 5 }]);
});

test("a SKU is unique within its account, also for two that are created at once", async () => {
  const [one, other] = [await openShop(), await openShop()];
  const body = { sku: "SKU", name: "A", unit_price: 1, currency: "EUR", stock: 0 };

  const answers = await Promise.all(
    ["a", "b", "c", "d"].map((key) => one.post("/products", body, key)),
  );
  const elsewhere = await other.post("/products", body, "a");

  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
  expect(answers.filter(({ json }) => json["error"] === "sku_taken")).toHaveLength(3);
  expect(elsewhere.status).toBe(201);
});

test("a stock adjustment moves stock once and never below zero", async () => {
  const { account, post } = await openShop();
  const product = await shelve(account.id, { units: 10 });
  const path = `/products/${product}/stock-adjustments`;

  const taken = await post(path, { delta: -4, reason: "broken" }, "a");
  const replay = await post(path, { delta: -4, reason: "broken" }, "a");
  const tooMuch = await post(path, { delta: -7 }, "b");
  const nowhere = await post("/products/prod_none/stock-adjustments", { delta: 1 }, "c");

  expect(taken.json).toMatchObject({ product_id: product, delta: -4, reason: "broken" });
  expect(replay.body).toBe(taken.body);
  expect(tooMuch.json).toMatchObject({ status: 409, error: "insufficient_stock" });
  expect(nowhere.json).toMatchObject({ status: 404, error: "not_found" });
  expect(await stockOf(product)).toBe(6);
});

test("lists are paged, newest first, and hold only the account's own", async () => {
  const { account, get, post } = await openShop();
  const product = await shelve(account.id);
  const placed: string[] = [];
  for (let i = 0; i < 5; i++) {
    const { json } = await post("/orders", order(product), `k${i}`);
    placed.unshift(String(json["id"]));
  }
  await post(`/orders/${placed[0]}/cancel`, undefined, "cancel");
  await (await openShop()).get("/orders");
  const idsOf = ({ json }: { json: Record<string, unknown> }) =>
    (json["data"] as { id: string; items: unknown[] }[]).map(({ id }) => id);

  const first = await get("/orders?limit=2");
  const second = await get(`/orders?limit=2&starting_after=${placed[1]}`);
  const last = await get(`/orders?limit=2&starting_after=${placed[3]}`);
  const pending = await get("/orders?status=pending");
  const tooMany = await get("/orders?limit=101");

  expect([idsOf(first), first.json["has_more"]]).toEqual([placed.slice(0, 2), true]);
  expect([idsOf(second), second.json["has_more"]]).toEqual([placed.slice(2, 4), true]);
  expect([idsOf(last), last.json["has_more"]]).toEqual([placed.slice(4), false]);
  expect(idsOf(pending)).toEqual(placed.slice(1));
  expect((first.json["data"] as { items: unknown[] }[]).map(({ items }) => items.length)).toEqual([
    1, 1,
  ]);
  expect(tooMany.json).toMatchObject({ status: 400, errors: [{ path: "/limit" }] });
  expect((await get("/products")).json["data"]).toHaveLength(1);
});

test("what belongs to another account is not found, whatever is asked of it", async () => {
  const owner = await openShop();
  const stranger = await openShop();
  const product = await shelve(owner.account.id);
  const placed = await owner.post("/orders", order(product), "k");
  const path = placed.headers.get("location")!;

  const answers = [
    await stranger.get(path),
    await stranger.get(`/products/${product}`),
    await stranger.post(`${path}/cancel`, undefined, "a"),
    await stranger.post(`/products/${product}/stock-adjustments`, { delta: 1 }, "b"),
  ];

  expect(answers.map(({ json }) => json["error"])).toEqual(Array(4).fill("not_found"));
  expect((await stranger.get("/orders")).json).toEqual({ data: [], has_more: false });
  expect(await stockOf(product)).toBe(99);
});

test("the database allows an order's states in their order only", async () => {
  const { account, post } = await openShop();
  const product = await shelve(account.id);
  await post("/orders", order(product), "k");
  const become = (status: string) =>
    sql`UPDATE orders SET status = ${status} WHERE account_id = ${account.id}`.run();
  const forbidden = "orders_transition_forbidden";

  await expect(become("refunded")).rejects.toThrow(forbidden);
  await expect(become("pending")).rejects.toThrow(forbidden);
  await become("paid");
  await expect(become("cancelled")).rejects.toThrow(forbidden);
  await become("partially_refunded");
  await become("refunded");
  await expect(become("paid")).rejects.toThrow(forbidden);
});
