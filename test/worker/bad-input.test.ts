import { expect, test } from "vitest";

import { ledgerSize, openShop, ordersOf, postRequest, shelve } from "./shop.ts";

// Goal: whatever arrives gets a clear 4xx or the right answer, never a 5xx, and what is refused leaves no row.

const item = (product: string, quantity: unknown = 1) => ({ product_id: product, quantity });
const json = (product: string, rest: string) =>
  `{"items":[{"product_id":"${product}","quantity":1${rest}}]}`;

test("wrong fields are named by JSON Pointer, all at once", async () => {
  const { account, post } = await openShop();

  const answer = await post(
    "/orders",
    { items: [item("prod_1", 0), { product_id: 7 }], reference: "", extra: 1 },
    "k",
  );

  const paths = (answer.json["errors"] as { path: string; message: string }[]).map(
    ({ path }) => path,
  );
  expect(answer.json).toMatchObject({ status: 400, error: "invalid_request", retryable: false });
  expect(answer.headers.get("content-type")).toBe("application/problem+json");
  expect(paths.toSorted()).toEqual([
    "",
    "/items/0/quantity",
    "/items/1/product_id",
    "/items/1/quantity",
    "/reference",
  ]);
  expect(await ledgerSize(account.id)).toBe(0);
});

test.each([
  ["0", 0],
  ["negative", -1],
  ["a fraction", 1.5],
  ["1e308", 1e308],
  ["a string", "1"],
  ["null", null],
  ["past the limit", 1_000_001],
])("a quantity that is %s is refused", async (_, quantity) => {
  const { account, post } = await openShop();
  const product = await shelve(account.id);

  const answer = await post("/orders", { items: [item(product, quantity)] }, "k");

  const errors = answer.json["errors"] as { path: string }[];
  expect(answer.json).toMatchObject({ status: 400, error: "invalid_request" });
  expect(new Set(errors.map(({ path }) => path))).toEqual(new Set(["/items/0/quantity"]));
  expect(await ledgerSize(account.id)).toBe(0);
});

test("50 lines are accepted, 51 and none are refused", async () => {
  const { account, post } = await openShop();
  const product = await shelve(account.id);
  const lines = (count: number) => ({ items: Array.from({ length: count }, () => item(product)) });

  const fifty = await post("/orders", lines(50), "a");
  const fiftyOne = await post("/orders", lines(51), "b");
  const none = await post("/orders", lines(0), "c");

  expect(fifty.status).toBe(201);
  expect([fiftyOne.status, none.status]).toEqual([400, 400]);
  expect(await ledgerSize(account.id)).toBe(1);
});

test.each([
  ["NUL", '"a\\u0000b"'],
  ["a lone high surrogate", '"\\ud800"'],
  ["a lone low surrogate", '"\\udc00"'],
])("text with %s is refused in every field", async (_, text) => {
  const { account, post } = await openShop();
  const product = await shelve(account.id);

  const reference = await post(
    "/orders",
    `{"items":[{"product_id":"${product}","quantity":1}],"reference":${text}}`,
    "a",
  );
  const id = await post("/orders", `{"items":[{"product_id":${text},"quantity":1}]}`, "b");
  const name = await post(
    "/products",
    `{"sku":"S","name":${text},"unit_price":1,"currency":"EUR","stock":1}`,
    "c",
  );
  const reason = await post(
    `/products/${product}/stock-adjustments`,
    `{"delta":1,"reason":${text}}`,
    "d",
  );

  expect([reference, id, name, reason].map(({ json: body }) => body["error"])).toEqual(
    Array(4).fill("invalid_request"),
  );
  expect(await ledgerSize(account.id)).toBe(0);
});

test("astral characters, quotes and SQL in text come back as they were sent", async () => {
  const { account, get, post } = await openShop();
  const product = await shelve(account.id);
  const reference = `😀 "it's" \\ '; DROP TABLE orders; -- \u2028 \t`;

  const placed = await post("/orders", { items: [item(product)], reference }, "k");
  const read = await get(placed.headers.get("location")!);

  expect(placed.json["reference"]).toBe(reference);
  expect(read.body).toBe(placed.body);
});

test.each([
  ["nothing", ""],
  ["half a document", '{"items":['],
  ["a bare array", "[]"],
  ["null", "null"],
  ["a number", "1e999"],
  ["deep nesting", "[".repeat(30_000)],
  ["closed deep nesting", "[".repeat(30_000) + "]".repeat(30_000)],
  ["a prototype", '{"__proto__":{"items":[]}}'],
])("a body of %s is a 400", async (_, body) => {
  const { account, post } = await openShop();

  const raw = await post("/orders", body, "k");
  const canonical = await openShop({
    account,
    bindings: { IDEMPOTENCY_FINGERPRINT: "canonical-json" },
  });

  expect(raw.json).toMatchObject({ status: 400, error: "invalid_request" });
  expect((await canonical.post("/orders", body, "k")).status).toBe(400);
  expect(await ledgerSize(account.id)).toBe(0);
});

test("a body that is not UTF-8 is a 400, not another text", async () => {
  const { account, post } = await openShop();
  const product = await shelve(account.id);
  const bytes = new TextEncoder().encode(json(product, "").replace("}]}", '}],"reference":"?"}'));
  bytes[bytes.lastIndexOf(0x3f)] = 0xff;

  const answer = await post("/orders", bytes, "k");

  expect(answer.json).toMatchObject({ status: 400, error: "invalid_request" });
  expect(await ordersOf(account.id)).toEqual([]);
});

test("bytes are counted, not what Content-Length says", async () => {
  const { account, send, post } = await openShop();
  const large = `{"items":[],"reference":"${"é".repeat(40_000)}"}`;
  const lying = postRequest(account, "/orders", large, "a", { "content-length": "10" });
  const chunked = postRequest(account, "/orders", new Blob([large]).stream(), "b");

  const answers = [await post("/orders", large, "c"), await send(lying), await send(chunked)];

  expect(
    answers.map(({ json: body }) => [body["status"], body["error"], body["limit_bytes"]]),
  ).toEqual(answers.map(() => [413, "body_too_large", 65_536]));
  expect(await ledgerSize(account.id)).toBe(0);
});

test.each(["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "garbage"])(
  "a body of type %s is a 415",
  async (type) => {
    const { account, post } = await openShop();
    const product = await shelve(account.id);

    const answer = await post("/orders", { items: [item(product)] }, "k", { "content-type": type });

    expect(answer.json).toMatchObject({ status: 415, error: "unsupported_media_type" });
    expect(await ledgerSize(account.id)).toBe(0);
  },
);

test("unknown addresses are 404 and known ones with another method 405 with Allow", async () => {
  const { account, send, get } = await openShop();
  const headers = { authorization: `Bearer ${account.apiKey}` };
  const put = await send(new Request("http://shop.test/orders/ord_1", { method: "PUT", headers }));
  const remove = await send(new Request("http://shop.test/orders", { method: "DELETE", headers }));
  const odd = await get("/orders/%00%ED%A0%80'%22");

  expect((await get("/nowhere")).json).toMatchObject({ status: 404, error: "not_found" });
  expect(odd.json).toMatchObject({ status: 404, error: "not_found" });
  expect(put.json).toMatchObject({ status: 405, error: "method_not_allowed" });
  expect(put.headers.get("allow")).toBe("GET, HEAD");
  expect(remove.headers.get("allow")).toBe("GET, HEAD, POST");
});

test.each(["", "zzz", "prod", "ref_0192f3a0-0000-7000-8000-000000000001", "pay_\0"])(
  "a page that starts after %j is refused, and is not the end of the list",
  async (after) => {
    const { account, get, post } = await openShop();
    const items = [item(await shelve(account.id))];
    const order = (await post("/orders", { items }, "k")).json["id"];

    const answers = [];
    for (const path of ["/orders", "/products", `/orders/${String(order)}/payments`]) {
      answers.push(await get(`${path}?starting_after=${encodeURIComponent(after)}`));
    }

    expect(
      answers.map(({ json: { status, error, errors } }) => ({ status, error, errors })),
    ).toEqual(
      answers.map(() => ({
        status: 400,
        error: "invalid_request",
        errors: [{ path: "/starting_after", message: expect.any(String) }],
      })),
    );
  },
);
