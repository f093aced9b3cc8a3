import { expect, test } from "vitest";

import { answerLost, callLost, faultyD1, gate, overloaded, passes } from "./faulty-d1.ts";
import {
  createAccount,
  ledgerRow,
  ledgerSize,
  openShop,
  ordersOf,
  postRequest,
  shelve,
  sql,
  stockOf,
  TestClock,
} from "./shop.ts";

const PENDING_TTL_MS = 30_000;
const RETENTION_MS = 86_400_000;
const order = (product: string, quantity = 1) => ({ items: [{ product_id: product, quantity }] });

/** A shop whose first request for `key` has claimed it and then stands still before its commit. */
async function stalledOwner(key: string) {
  const clock = new TestClock();
  const d1 = faultyD1();
  const slow = await openShop({ bindings: { DB: d1.DB }, ports: clock });
  const shop = await openShop({ account: slow.account, ports: clock });
  const product = await shelve(slow.account.id);
  const commit = gate();
  d1.next(passes, commit.fault);
  const answer = slow.post("/orders", order(product), key);
  await commit.reached;
  return { clock, shop, product, commit, answer, account: slow.account };
}

test("case 1: an owner that died after its claim blocks its key for one pending TTL, not longer", async () => {
  const { clock, shop, product, commit, answer, account } = await stalledOwner("k");

  clock.advance(PENDING_TTL_MS - 1);
  const before = await shop.post("/orders", order(product), "k");
  clock.advance(1);
  const past = await shop.post("/orders", order(product), "k");

  expect(before.json).toMatchObject({
    error: "idempotency_key_in_progress",
    takeover_after_ms: 1,
  });
  expect(past.status).toBe(201);
  expect(past.headers.get("idempotent-replayed")).toBe("false");
  // The window is counted from the claim that was carried out.
  const expiresAt = clock.now() + RETENTION_MS;
  expect(await ledgerRow(account.id, "k")).toMatchObject({
    generation: 2,
    status: "completed",
    expires_at: expiresAt,
  });
  commit.open();
  await answer;
  expect(await ordersOf(account.id)).toHaveLength(1);
});

test("case 2: a refused duplicate leaves its owner's claim exactly as it was", async () => {
  const { clock, shop, product, commit, answer, account } = await stalledOwner("k");
  const before = await ledgerRow(account.id, "k");

  clock.advance(1_000);
  const duplicates = await Promise.all(
    Array.from({ length: 10 }, () => shop.post("/orders", order(product), "k")),
  );

  expect(duplicates.map((duplicate) => duplicate.status)).toEqual(Array(10).fill(409));
  expect(await ledgerRow(account.id, "k")).toEqual(before);
  commit.open();
  expect((await answer).status).toBe(201);
});

test("case 2: an in-progress answer says when to look again and when the claim can be taken over", async () => {
  const { clock, shop, product, commit, answer } = await stalledOwner("k");

  clock.advance(10_000);
  const duplicate = await shop.post("/orders", order(product), "k");

  expect(duplicate.json).toMatchObject({
    status: 409,
    error: "idempotency_key_in_progress",
    retryable: true,
    retry_after_ms: 200,
    takeover_after_ms: 20_000,
  });
  expect(duplicate.headers.get("retry-after")).toBe("1");
  expect(duplicate.headers.get("idempotent-replayed")).toBe("false");
  commit.open();
  await answer;
});

test("case 3: a missing or empty key is refused and never stored as a key shared by everybody", async () => {
  const { account, post } = await openShop();
  const product = await shelve(account.id);

  const missing = await post("/orders", order(product), null);
  const empty = await post("/orders", order(product), "");
  const quotedEmpty = await post("/orders", order(product), '""');

  expect(missing.json).toMatchObject({ status: 400, error: "idempotency_key_required" });
  expect(empty.json).toMatchObject({ status: 400, error: "idempotency_key_invalid" });
  expect(quotedEmpty.json).toMatchObject({ status: 400, error: "idempotency_key_invalid" });
  expect(await ledgerSize(account.id)).toBe(0);
  expect(await ordersOf(account.id)).toEqual([]);
});

test("case 3: two callers that send the text null share nothing", async () => {
  const [one, other] = [await openShop(), await openShop()];
  const first = await one.post("/orders", order(await shelve(one.account.id)), "null");
  const second = await other.post("/orders", order(await shelve(other.account.id)), "null");

  expect([first.status, second.status]).toEqual([201, 201]);
  expect(first.json["id"]).not.toBe(second.json["id"]);
});

test("the quoted and the bare form name the same key", async () => {
  const { account, post } = await openShop();
  const product = await shelve(account.id);

  const bare = await post("/orders", order(product), "abc");
  const quoted = await post("/orders", order(product), '"abc"');

  expect(quoted.headers.get("idempotent-replayed")).toBe("true");
  expect(quoted.body).toBe(bare.body);
  expect(await ledgerSize(account.id)).toBe(1);
});

test("case 4: of 200 that race for a fresh key one executes; the others get its replay or 409", async () => {
  const { account, post } = await openShop();
  const product = await shelve(account.id);

  const answers = await Promise.all(
    Array.from({ length: 200 }, () => post("/orders", order(product), "k")),
  );

  const placed = answers.filter((answer) => answer.status === 201);
  const others = answers.filter((answer) => answer.status !== 201);
  const fresh = placed.filter((answer) => answer.headers.get("idempotent-replayed") === "false");
  expect(fresh).toHaveLength(1);
  expect(placed.map((answer) => answer.body)).toEqual(placed.map(() => fresh[0]!.body));
  expect(others.map((answer) => answer.json["error"])).toEqual(
    others.map(() => "idempotency_key_in_progress"),
  );
  expect(await ordersOf(account.id)).toHaveLength(1);
  expect(await stockOf(product)).toBe(99);
});

test("case 5: a claim whose answer was lost is sent again and recognises itself", async () => {
  const d1 = faultyD1();
  const { account, post } = await openShop({ bindings: { DB: d1.DB } });
  const product = await shelve(account.id);

  d1.next(answerLost);
  const answer = await post("/orders", order(product), "k");

  expect(answer.status).toBe(201);
  expect(answer.headers.get("idempotent-replayed")).toBe("false");
  expect(await ledgerRow(account.id, "k")).toMatchObject({ generation: 1, status: "completed" });
});

test("case 5: a claim that never arrived is sent again", async () => {
  const d1 = faultyD1();
  const { account, post } = await openShop({ bindings: { DB: d1.DB } });
  const product = await shelve(account.id);

  d1.next(callLost, callLost);
  const answer = await post("/orders", order(product), "k");

  expect(answer.status).toBe(201);
  expect(await ordersOf(account.id)).toHaveLength(1);
});

test("a claim that never gets through ends in 503 after three tries, and a retry executes", async () => {
  const d1 = faultyD1();
  const { account, post } = await openShop({ bindings: { DB: d1.DB } });
  const product = await shelve(account.id);

  d1.next(callLost, callLost, callLost);
  const answer = await post("/orders", order(product), "k");
  const row = await ledgerRow(account.id, "k");
  const retry = await post("/orders", order(product), "k");

  expect(answer.json).toMatchObject({ status: 503, error: "service_unavailable", retryable: true });
  expect(row).toBeNull();
  expect(retry.status).toBe(201);
});

test("an overloaded database sheds a claim at once instead of being asked again", async () => {
  const d1 = faultyD1();
  const { account, post } = await openShop({ bindings: { DB: d1.DB } });
  const product = await shelve(account.id);

  d1.next(overloaded);
  const answer = await post("/orders", order(product), "k");

  expect(answer.json).toMatchObject({ status: 503, error: "service_unavailable", retryable: true });
  expect(answer.headers.get("retry-after")).toBe("1");
  expect(await ledgerSize(account.id)).toBe(0);
});

test("case 6: the same key in flight with another body is 422 at once", async () => {
  const { shop, product, commit, answer, account } = await stalledOwner("k");
  const before = await ledgerRow(account.id, "k");

  const other = await shop.post("/orders", order(product, 2), "k");

  expect(other.json).toMatchObject({
    status: 422,
    error: "idempotency_key_reused",
    retryable: false,
  });
  expect(await ledgerRow(account.id, "k")).toEqual(before);
  commit.open();
  await answer;
});

test("case 6: another body does not take over a stale or released claim either", async () => {
  const { clock, shop, product, commit, answer, account } = await stalledOwner("k");

  clock.advance(PENDING_TTL_MS + 1);
  const stale = await shop.post("/orders", order(product, 2), "k");
  await sql`UPDATE idempotency_keys SET status = 'released' WHERE principal = ${account.id}`.run();
  const released = await shop.post("/orders", order(product, 2), "k");

  expect([stale.status, released.status]).toEqual([422, 422]);
  expect(await ledgerRow(account.id, "k")).toMatchObject({ generation: 1, status: "released" });
  commit.open();
  await answer;
  expect(await ordersOf(account.id)).toEqual([]);
});

test("case 7: the same key on another path, query, content type or API version is another request", async () => {
  const { account, post } = await openShop();
  const product = await shelve(account.id);
  const body = order(product);
  const first = await post("/orders", body, "k");
  const json = "application/json; charset=utf-8";

  const others = await Promise.all([
    post(`/products/${product}/stock-adjustments`, { delta: 1 }, "k"),
    post("/orders?expand=items", body, "k"),
    post("/orders", body, "k", { "content-type": json }),
    post("/orders", body, "k", { "x-api-version": "2" }),
    post("/orders", body, "k", { "x-api-version": "" }),
    post("/orders", `${JSON.stringify(body)} `, "k"),
  ]);
  const same = await post("/orders", body, "k", { "user-agent": "another", traceparent: "00-1" });

  expect(others.map((other) => other.json["error"])).toEqual(
    Array(6).fill("idempotency_key_reused"),
  );
  expect(same.body).toBe(first.body);
  expect(await ordersOf(account.id)).toHaveLength(1);
});

test("IDEMPOTENCY_REUSE_STATUS=409 answers reuse with 409 and stays final", async () => {
  const { account, post } = await openShop({ bindings: { IDEMPOTENCY_REUSE_STATUS: "409" } });
  const product = await shelve(account.id);
  await post("/orders", order(product), "k");

  const reused = await post("/orders", order(product, 2), "k");

  expect(reused.status).toBe(409);
  expect(reused.json).toMatchObject({
    status: 409,
    error: "idempotency_key_reused",
    retryable: false,
  });
});

test("IDEMPOTENCY_FINGERPRINT=canonical-json recognises a body that was serialised anew", async () => {
  const { account, post } = await openShop({
    bindings: { IDEMPOTENCY_FINGERPRINT: "canonical-json" },
  });
  const product = await shelve(account.id);
  const first = await post("/orders", `{"items":[{"product_id":"${product}","quantity":1}]}`, "k");
  const again = await post(
    "/orders",
    `{ "items": [{"quantity": 1.0, "product_id":"${product}"}] }`,
    "k",
  );
  const other = await post("/orders", order(product, 2), "k");

  expect(again.body).toBe(first.body);
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect(other.status).toBe(422);
});

test("case 8: the same key from another principal is unrelated", async () => {
  const { shop, product, commit, answer, account } = await stalledOwner("k");
  const stranger = await openShop();
  const theirs = await stranger.post("/orders", order(await shelve(stranger.account.id)), "k");
  commit.open();
  const ours = await answer;
  const replay = await shop.post("/orders", order(product), "k");

  expect([theirs.status, ours.status]).toEqual([201, 201]);
  expect(theirs.headers.get("idempotent-replayed")).toBe("false");
  expect(theirs.json["id"]).not.toBe(ours.json["id"]);
  expect(replay.body).toBe(ours.body);
  expect(await ordersOf(account.id)).toHaveLength(1);
  expect(await ordersOf(stranger.account.id)).toHaveLength(1);
});

test("case 9: a claim whose body took longer than the TTL to arrive is not born stale", async () => {
  const clock = new TestClock();
  const d1 = faultyD1();
  const { account, send } = await openShop({ bindings: { DB: d1.DB }, ports: clock });
  const shop = await openShop({ account, ports: clock });
  const product = await shelve(account.id);
  const commit = gate();
  d1.next(passes, commit.fault);

  const upload = new TransformStream<Uint8Array, Uint8Array>();
  const answer = send(postRequest(account, "/orders", upload.readable, "k"));
  const bytes = new TextEncoder().encode(JSON.stringify(order(product)));
  const writer = upload.writable.getWriter();
  await writer.write(bytes.slice(0, 10));
  clock.advance(PENDING_TTL_MS * 2);
  await writer.write(bytes.slice(10));
  await writer.close();
  await commit.reached;
  const duplicate = await shop.post("/orders", order(product), "k");

  expect(duplicate.json).toMatchObject({
    error: "idempotency_key_in_progress",
    takeover_after_ms: PENDING_TTL_MS,
  });
  commit.open();
  expect((await answer).status).toBe(201);
  expect(await ledgerRow(account.id, "k")).toMatchObject({ generation: 1 });
});

test("Prefer: wait answers with the running request's outcome", async () => {
  const { shop, product, commit, answer } = await stalledOwner("k");

  const waiting = shop.post("/orders", order(product), "k", { prefer: "wait=10" });
  commit.open();
  const [first, waited] = await Promise.all([answer, waiting]);

  expect(waited.body).toBe(first.body);
  expect(waited.headers.get("idempotent-replayed")).toBe("true");
  expect(waited.headers.get("preference-applied")).toBe("wait=10");
});

test("Prefer: wait ends in 409 when the time is up, and takes over a claim that goes stale meanwhile", async () => {
  const { clock, shop, product, commit, answer, account } = await stalledOwner("k");

  const tooShort = await shop.post("/orders", order(product), "k", { prefer: "wait=3" });
  clock.advance(PENDING_TTL_MS - 5_000);
  const longEnough = await shop.post("/orders", order(product), "k", { prefer: "wait=10" });

  expect(tooShort.json).toMatchObject({ status: 409, error: "idempotency_key_in_progress" });
  expect(longEnough.status).toBe(201);
  expect(await ledgerRow(account.id, "k")).toMatchObject({ generation: 2 });
  commit.open();
  await answer;
});

test("GET /idempotency-keys/{key} shows the caller's own row, and nobody else's", async () => {
  const { shop, product, commit, answer } = await stalledOwner("a b/c");
  const path = `/idempotency-keys/${encodeURIComponent("a b/c")}`;
  const pending = await shop.get(path);
  commit.open();
  const placed = await answer;

  const completed = await shop.get(path);
  const quoted = await shop.get(`/idempotency-keys/${encodeURIComponent('"a b/c"')}`);
  const stranger = await openShop({ account: await createAccount() });
  const hidden = await stranger.get(path);

  expect(pending.json).toMatchObject({ status: "pending", generation: 1, location: null });
  expect(completed.json).toEqual({
    key: "a b/c",
    status: "completed",
    generation: 1,
    method: "POST",
    path: "/orders",
    response_status: 201,
    location: `/orders/${String(placed.json["id"])}`,
    created_at: expect.stringMatching(/^\d{4}-.*Z$/),
    expires_at: expect.stringMatching(/^\d{4}-.*Z$/),
  });
  expect(quoted.body).toBe(completed.body);
  expect(hidden.json).toMatchObject({ status: 404, error: "not_found" });
  expect(product).toMatch(/^prod_/);
});
