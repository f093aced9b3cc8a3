import { runInDurableObject } from "cloudflare:test";
import { expect, test, vi } from "vitest";

import type { StripeSandbox } from "../../src/payments/sandbox/sandbox.ts";
import {
  callsUnder,
  chargesUnder,
  freshKey,
  isReplay,
  pay,
  raw,
  refusalOf,
  sandbox,
  stripe,
} from "./stripe-sandbox.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

test("the same key and parameters get the stored result, byte for byte, and no second charge", async () => {
  const key = freshKey();
  const form = (...pairs: string[]) => pairs.join("&");
  const post = async (body: string) => {
    const headers = { "idempotency-key": key };
    const response = await raw("/v1/payment_intents", { method: "POST", body, headers });
    return { status: response.status, text: await response.text(), headers: response.headers };
  };

  const first = await post(
    form("amount=5", "currency=eur", "payment_method=pm_card_visa", "confirm=true"),
  );
  const again = await post(
    form("confirm=true", "payment_method=pm_card_visa", "currency=eur", "amount=5"),
  );

  expect(again.text).toBe(first.text);
  expect([first.status, again.status]).toEqual([200, 200]);
  expect(first.headers.get("idempotent-replayed")).toBeNull();
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect(again.headers.get("original-request")).toBe(first.headers.get("request-id"));
  expect(again.headers.get("request-id")).not.toBe(first.headers.get("request-id"));
  expect(await chargesUnder(key)).toHaveLength(1);
  expect((await callsUnder(key)).map(({ isReplayed }) => isReplayed)).toEqual([false, true]);
});

test("a key is bound to its parameters and to its endpoint", async () => {
  const key = freshKey();
  const intent = await pay({ key });

  const others = [
    () => pay({ key, amount: 1251 }),
    () => pay({ key, metadata: { a: "1" } }),
    () => stripe.paymentIntents.confirm(intent.id, {}, { idempotencyKey: key }),
    () => stripe.refunds.create({ payment_intent: intent.id }, { idempotencyKey: key }),
  ];
  for (const other of others) {
    expect(await refusalOf(other())).toMatchObject({
      type: "StripeIdempotencyError",
      rawType: "idempotency_error",
      statusCode: 400,
    });
  }
  expect((await pay({ key })).id).toBe(intent.id);

  const held = { amount: 5, currency: "eur", payment_method: "pm_card_visa" };
  const [one, other] = [
    await stripe.paymentIntents.create(held),
    await stripe.paymentIntents.create(held),
  ];
  const confirmed = { idempotencyKey: freshKey() };
  await stripe.paymentIntents.confirm(one.id, {}, confirmed);
  const elsewhere = stripe.paymentIntents.confirm(other.id, {}, confirmed);
  expect(await refusalOf(elsewhere)).toMatchObject({
    rawType: "idempotency_error",
    statusCode: 400,
  });
  expect(await chargesUnder(key)).toMatchObject([{ amount: 1250, amountRefunded: 0 }]);
});

test("of two calls at once under one key, one executes and the other is told that the key is in use", async () => {
  const key = freshKey();
  const asked = { key, payment_method: "pm_sandbox_slow_200" };

  const [one, other] = await Promise.allSettled([pay(asked), pay(asked)]);
  const changed = await Promise.allSettled([
    pay({ ...asked, key: `${key}2` }),
    pay({ ...asked, key: `${key}2`, amount: 1 }),
  ]);

  expect([one, other].map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
  const refused = [one, other].find(({ status }) => status === "rejected") as PromiseRejectedResult;
  expect(await refusalOf(Promise.reject(refused.reason))).toMatchObject({
    // The stripe package knows no type of its own for a 409.
    type: "StripeAPIError",
    rawType: "idempotency_error",
    statusCode: 409,
    code: "idempotency_key_in_use",
  });
  const mismatch = changed.find(({ status }) => status === "rejected") as PromiseRejectedResult;
  expect(mismatch.reason).toMatchObject({ statusCode: 400, rawType: "idempotency_error" });
  expect(await chargesUnder(key)).toHaveLength(1);
  expect(isReplay(await pay(asked))).toBe(true);
});

test("20 calls at once under one key make one charge; 20 under 20 keys make 20", async () => {
  const key = freshKey();
  const keys = Array.from({ length: 20 }, freshKey);
  const before = (await sandbox.totals()).charges;

  const underOne = await Promise.allSettled(keys.map(() => pay({ key })));
  expect((await sandbox.totals()).charges - before).toBe(1);
  const answered = underOne.filter((result) => result.status === "fulfilled");
  expect(new Set(answered.map(({ value }) => value.id)).size).toBe(1);

  const intents = await Promise.all(keys.map((each) => pay({ key: each })));
  expect((await sandbox.totals()).charges - before).toBe(21);
  expect(new Set(intents.map(({ latest_charge }) => latest_charge)).size).toBe(20);
});

test("one intent confirmed at once under two keys is charged once", async () => {
  const { id } = await stripe.paymentIntents.create({ amount: 100, currency: "eur" });
  const confirm = (payment_method: string) => stripe.paymentIntents.confirm(id, { payment_method });

  const results = await Promise.allSettled([
    confirm("pm_sandbox_slow_100"),
    confirm("pm_card_visa"),
  ]);

  expect(results.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
  expect(results[0]).toMatchObject({ reason: { code: "payment_intent_unexpected_state" } });
  const charges = await sandbox.charges();
  expect(charges.filter(({ paymentIntent }) => paymentIntent === id)).toHaveLength(1);
});

test("a result is kept for a day, and then the key is new", async () => {
  const key = freshKey();
  const first = await pay({ key });
  const age = (ms: number) =>
    runInDurableObject(sandbox, (_: StripeSandbox, { storage }) => {
      const older = "UPDATE idempotency_results SET created_at = created_at - ? WHERE key = ?";
      storage.sql.exec(older, ms, key);
    });

  await age(DAY_MS - 60_000);
  expect((await pay({ key })).id).toBe(first.id);
  await age(60_000);
  const second = await pay({ key, amount: 7 });

  expect(second.id).not.toBe(first.id);
  expect((await pay({ key, amount: 7 })).id).toBe(second.id);
  expect(await chargesUnder(key)).toMatchObject([{ amount: 1250 }, { amount: 7 }]);
});

test("results that are past their day are deleted, a few with each new one", async () => {
  const old = await Promise.all(
    Array.from({ length: 12 }, () => pay().then((paid) => paid.lastResponse.idempotencyKey!)),
  );
  const countOld = () =>
    runInDurableObject(sandbox, (_: StripeSandbox, { storage }) => {
      const count = `SELECT count(*) AS n FROM idempotency_results WHERE key IN (${old.map(() => "?").join()})`;
      return storage.sql.exec<{ n: number }>(count, ...old).one().n;
    });
  await runInDurableObject(sandbox, (_: StripeSandbox, { storage }) => {
    const age = `UPDATE idempotency_results SET created_at = 0 WHERE key IN (${old.map(() => "?").join()})`;
    storage.sql.exec(age, ...old);
  });

  expect(await countOld()).toBe(12);
  await pay();
  expect(await countOld()).toBe(2);
  await pay();
  expect(await countOld()).toBe(0);
});

test("a slow payment method waits, then charges", async () => {
  const start = Date.now();
  const intent = await pay({ payment_method: "pm_sandbox_slow_150" });
  expect(Date.now() - start).toBeGreaterThanOrEqual(145);
  expect(intent.status).toBe("succeeded");
});

test("a slow charge goes on when its caller has hung up, and a retry gets its result", async () => {
  const key = freshKey();
  const asked = { key, payment_method: "pm_sandbox_slow_400" };

  const hungUp = await refusalOf(pay({ ...asked, timeout: 50 }));
  const chargedByThen = await chargesUnder(key);
  const early = await refusalOf(pay(asked));
  await vi.waitFor(async () => expect(await chargesUnder(key)).toHaveLength(1), { timeout: 5_000 });
  const retry = await pay(asked);

  expect(hungUp).toMatchObject({ type: "StripeConnectionError", statusCode: undefined });
  expect(chargedByThen).toEqual([]);
  expect(early).toMatchObject({ statusCode: 409, code: "idempotency_key_in_use" });
  expect(isReplay(retry)).toBe(true);
  expect(await chargesUnder(key)).toMatchObject([{ id: retry.latest_charge, status: "succeeded" }]);
});

test("a lost reply is a connection that breaks after the charge: a retry gets the stored result", async () => {
  const key = freshKey();
  const asked = { key, payment_method: "pm_sandbox_lost_reply" };

  const lost = await refusalOf(pay(asked));
  const charged = await chargesUnder(key);
  const retry = await pay(asked);

  expect(lost).toMatchObject({ type: "StripeConnectionError", statusCode: undefined });
  expect(charged).toHaveLength(1);
  expect(retry).toMatchObject({ status: "succeeded", latest_charge: charged[0]!.id });
  expect(isReplay(retry)).toBe(true);
  expect(await chargesUnder(key)).toEqual(charged);
  // One call each: the client tried nothing again by itself.
  expect(await callsUnder(key)).toMatchObject([
    { status: 200, isReplayed: false, isReplyLost: true },
    { status: 200, isReplayed: true, isReplyLost: false },
  ]);
});

test("a sandbox that is unavailable once executes nothing, and the next try under the key works", async () => {
  const key = freshKey();
  const asked = { key, payment_method: "pm_sandbox_unavailable_once" };

  const refused = await refusalOf(pay(asked));
  const charged = await chargesUnder(key);
  const retry = await pay(asked);

  expect(refused).toMatchObject({ type: "StripeAPIError", rawType: "api_error", statusCode: 503 });
  expect(charged).toEqual([]);
  expect(retry.status).toBe("succeeded");
  expect(isReplay(retry)).toBe(false);
  expect(await chargesUnder(key)).toHaveLength(1);
  expect((await callsUnder(key)).map(({ status }) => status)).toEqual([503, 200]);
  expect(await refusalOf(pay({ ...asked, key: freshKey() }))).toMatchObject({ statusCode: 503 });
});

test("a call without a key is executed each time", async () => {
  const body = "amount=5&currency=eur&payment_method=pm_card_visa&confirm=true";
  const before = (await sandbox.totals()).charges;
  await raw("/v1/payment_intents", { method: "POST", body });
  await raw("/v1/payment_intents", { method: "POST", body });
  expect((await sandbox.totals()).charges - before).toBe(2);
});
