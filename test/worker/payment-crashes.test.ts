import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { expect, test, vi } from "vitest";

import { sweepUntilCaughtUp } from "../../src/idempotency/sweep.ts";
import { callLost, faultyD1, gate, passes } from "./faulty-d1.ts";
import {
  brokenGuarantees,
  chargesOf,
  deliver,
  eventsAbout,
  faultyProvider,
  pay,
  paymentsOf,
  placeOrder,
  reconcileNow,
  refundsGiven,
  SECRETS,
  statusOf,
} from "./payments.ts";
import { ledgerRow, openShop, type Shop, shelve, sql, TestClock } from "./shop.ts";

// Goal: wherever the owner of a payment dies, and whoever comes after it, the end is one charge at the provider, one
// payment, an order that is paid once, and one response for the key. A crash is a message that is never sent, or whose
// answer never comes: nothing after it happens.

const PENDING_TTL_MS = 30_000;
const RETENTION_MS = 86_400_000;

const reached = () => Promise.withResolvers<void>();

/** Never sent. */
const diesBefore = (there: ReturnType<typeof reached>) => () => {
  there.resolve();
  return new Promise<never>(() => undefined);
};

/** Carried out, and then nothing. */
const diesAfter =
  (there: ReturnType<typeof reached>) =>
  async (send: () => Promise<unknown>): Promise<never> => {
    await send();
    there.resolve();
    return new Promise<never>(() => undefined);
  };

type Provider = ReturnType<typeof faultyProvider>;
type D1 = ReturnType<typeof faultyD1>;
type Crash = (there: ReturnType<typeof reached>, d1: D1, provider: Provider) => void;

const crashes: Record<string, Crash> = {
  "after the claim": (there, d1) => d1.next(passes, diesBefore(there)),
  "after the checkpoint": (there, _, provider) => provider.next(diesBefore(there)),
  "after the provider charged": (there, d1, provider) => {
    provider.next(diesAfter(there));
    d1.next(passes, passes);
  },
  "before the commit": (there, d1) => d1.next(passes, passes, diesBefore(there)),
  "after the commit": (there, d1) => d1.next(passes, passes, diesAfter(there)),
};

async function crashed(crash: Crash) {
  const clock = new TestClock();
  const [d1, provider] = [faultyD1(), faultyProvider()];
  const bindings = { ...SECRETS, DB: d1.DB, SANDBOX: provider.SANDBOX };
  const dying = await openShop({ bindings, ports: clock });
  const { account } = dying;
  const shop = await openShop({ account, bindings: SECRETS, ports: clock });
  const order = await placeOrder(shop);
  const there = reached();
  crash(there, d1, provider);
  void pay(dying, order, "k");
  await there.promise;
  return { clock, shop, order, account };
}

type World = Awaited<ReturnType<typeof crashed>>;

/** Brings the payment to its end, and answers how often it was told to wait. */
const followUps: Record<string, (world: World) => Promise<void>> = {
  "a retry": async ({ clock, shop, order }) => {
    const early = await pay(shop, order, "k");
    expect([201, 409]).toContain(early.status);
    clock.advance(PENDING_TTL_MS);
    await pay(shop, order, "k");
  },
  "a takeover": async ({ clock, shop, order }) => {
    clock.advance(PENDING_TTL_MS);
    await pay(shop, order, "k");
  },
  "the reconciler alone": async ({ clock }) => {
    clock.advance(2 * PENDING_TTL_MS + 1);
    await reconcileNow(clock);
  },
  "a webhook": async ({ shop, order }) => {
    for (const { id } of await paymentsOf(order)) {
      for (const event of await eventsAbout(id)) await deliver(shop, event);
    }
  },
};

async function placeOrderUnder({ account, post }: Shop, key: string) {
  const items = [{ product_id: await shelve(account.id), quantity: 1 }];
  await post("/orders", { items }, key);
}

const matrix = Object.keys(crashes).flatMap((crash) =>
  Object.keys(followUps).map((followUp) => [crash, followUp] as const),
);

test.each(matrix)(
  "an owner that dies %s, then %s: one charge, one response",
  async (crash, next) => {
    const world = await crashed(crashes[crash]!);
    const { clock, shop, order, account } = world;

    await followUps[next]!(world);
    const settledBy = await statusOf(order);
    clock.advance(PENDING_TTL_MS);
    const late = await pay(shop, order, "k");
    const replay = await pay(shop, order, "k");

    // Before the checkpoint there is nothing that anybody but the caller could finish; before the charge, nothing to hear.
    const isLeftToTheCaller =
      (crash === "after the claim" && ["the reconciler alone", "a webhook"].includes(next)) ||
      (crash === "after the checkpoint" && next === "a webhook");
    expect(settledBy).toBe(isLeftToTheCaller ? "pending" : "paid");
    expect(late.status).toBe(201);
    expect(replay.body).toBe(late.body);
    expect(await ledgerRow(account.id, "k")).toMatchObject({
      status: "completed",
      response_body: late.body,
    });
    expect(await paymentsOf(order)).toEqual([
      expect.objectContaining({ id: late.json["id"], status: "succeeded" }),
    ]);
    expect(await chargesOf(order)).toHaveLength(1);
    expect(await statusOf(order)).toBe("paid");
    expect(await brokenGuarantees()).toEqual([]);
  },
);

test("what the reconciler finishes is replayed to a late retry", async () => {
  const { clock, shop, order, account } = await crashed(crashes["before the commit"]!);
  clock.advance(2 * PENDING_TTL_MS + 1);

  const report = await reconcileNow(clock);
  const row = await ledgerRow(account.id, "k");
  const late = await pay(shop, order, "k");

  const [payment] = await paymentsOf(order);
  expect(report.settled).toContain(payment!.id);
  expect(row).toMatchObject({ status: "completed", generation: 2 });
  expect(late.headers.get("idempotent-replayed")).toBe("true");
  expect(late.body).toBe(row!.response_body);
});

test("the reconciler leaves alone what may still have its owner", async () => {
  const { clock, order } = await crashed(crashes["before the commit"]!);
  clock.advance(2 * PENDING_TTL_MS);

  const report = await reconcileNow(clock);

  const [payment] = await paymentsOf(order);
  expect(payment!.status).toBe("processing");
  expect([...report.settled, ...report.unsettled]).not.toContain(payment!.id);
  clock.advance(1);
  await reconcileNow(clock);
});

test("the reconciler finishes what a clock that was far ahead has asked for", async () => {
  const { clock, order } = await crashed(crashes["before the commit"]!);
  const ahead = clock.now() + 24 * 3_600_000;
  await sql`UPDATE payments SET updated_at = ${ahead} WHERE order_id = ${order}`.run();
  await sql`UPDATE idempotency_keys SET updated_at = ${ahead} WHERE status = 'pending'`.run();

  await reconcileNow(clock);

  expect((await paymentsOf(order))[0]).toMatchObject({ status: "succeeded" });
  expect(await statusOf(order)).toBe("paid");
});

test("the reconciler takes what waits longest first, payments and refunds alike, and a clock's errors before", async () => {
  const clock = new TestClock();
  const shop = await openShop({ ports: clock });
  const lost = faultyProvider({ always: callLost });
  const cutOff = await openShop({
    account: shop.account,
    ports: clock,
    bindings: { SANDBOX: lost.SANDBOX },
  });
  const paid = await pay(shop, await placeOrder(shop), "paid");
  const refunding = `/payments/${String(paid.json["id"])}/refunds`;
  await cutOff.post(refunding, { amount: 400 }, "refund");
  clock.advance(1);
  const orders = [];
  for (let i = 0; i < 20; i++) {
    const order = await placeOrder(shop);
    await pay(cutOff, order, `k${i}`);
    orders.push(order);
    clock.advance(1);
  }
  const [ahead] = await paymentsOf(orders.at(-1)!);
  await sql`UPDATE payments SET updated_at = ${clock.now() + RETENTION_MS} WHERE id = ${ahead!.id}`.run();
  const [refund] = (await sql`SELECT id FROM refunds WHERE payment_id = ${paid.json["id"]}`.all())
    .results;
  clock.advance(2 * PENDING_TTL_MS + 1);

  const first = await reconcileNow(clock);
  const second = await reconcileNow(clock);

  expect(first.settled.slice(0, 2)).toEqual([ahead!.id, refund!["id"]]);
  expect(first.settled).toHaveLength(20);
  expect(second.settled).toEqual([(await paymentsOf(orders.at(-2)!))[0]!.id]);
});

test("the reconciler finishes declines and refunds, too", async () => {
  const clock = new TestClock();
  const shop = await openShop({ ports: clock });
  const [declined, refunded] = [await placeOrder(shop), await placeOrder(shop)];
  const provider = faultyProvider();
  const dying = await openShop({
    account: shop.account,
    ports: clock,
    bindings: { SANDBOX: provider.SANDBOX },
  });
  const paid = await pay(shop, refunded, "pay", "pm_card_visa");
  const [first, second] = [reached(), reached()];
  provider.next(diesBefore(first), diesBefore(second));
  void pay(dying, declined, "declined", "pm_card_chargeDeclined");
  await first.promise;
  void dying.post(`/payments/${String(paid.json["id"])}/refunds`, { amount: 400 }, "refund");
  await second.promise;
  clock.advance(2 * PENDING_TTL_MS + 1);

  await reconcileNow(clock);

  const replays = [
    await pay(shop, declined, "declined", "pm_card_chargeDeclined"),
    await shop.post(`/payments/${String(paid.json["id"])}/refunds`, { amount: 400 }, "refund"),
  ];
  expect(replays.map(({ status }) => status)).toEqual([402, 201]);
  expect(replays.map(({ headers }) => headers.get("idempotent-replayed"))).toEqual([
    "true",
    "true",
  ]);
  expect(await statusOf(declined)).toBe("pending");
  expect(await statusOf(refunded)).toBe("partially_refunded");
  expect(await brokenGuarantees()).toEqual([]);
});

test("orphans whose key is gone are settled, and hold up nobody", async () => {
  const worlds = [];
  for (let i = 0; i < 3; i++) worlds.push(await crashed(crashes["after the provider charged"]!));
  const [orphan, reused, healthy] = worlds as [World, World, World];
  await sql`DELETE FROM idempotency_keys WHERE key = 'k' AND principal IN (${orphan.account.id}, ${reused.account.id})`.run();
  await placeOrderUnder(reused.shop, "k");
  const later = Math.max(...worlds.map(({ clock }) => clock.now())) + 2 * PENDING_TTL_MS + 1;

  await reconcileNow({ now: () => later });

  for (const { order } of [orphan, reused, healthy]) {
    expect(await statusOf(order)).toBe("paid");
    expect(await chargesOf(order)).toHaveLength(1);
  }
  expect(await brokenGuarantees()).toEqual([]);
});

test("a refund whose key is swept under the reconciler's hands is not given a second time", async () => {
  const clock = new TestClock();
  const shop = await openShop({ ports: clock });
  const order = await placeOrder(shop);
  const paid = await pay(shop, order, "pay", "pm_sandbox_refund_lost_reply");
  const payment = String(paid.json["id"]);
  await shop.post(`/payments/${payment}/refunds`, { amount: 400 }, "refund");
  const refunds = () => sql`SELECT * FROM refunds WHERE payment_id = ${payment}`.all();
  const { results: unanswered } = await refunds();
  clock.advance(RETENTION_MS + 1);
  const d1 = faultyD1();
  const claim = gate();
  d1.next(passes, passes, claim.fault);

  const running = reconcileNow(clock, d1.DB);
  await claim.reached;
  const sweep = { now: clock.now, pendingTtlMs: PENDING_TTL_MS, evictionLagAlertMs: 3_600_000 };
  const swept = await sweepUntilCaughtUp(drizzle(env.DB), sweep);
  claim.open();
  await running;

  expect(unanswered).toMatchObject([{ amount: 400, status: "processing" }]);
  expect(swept.evicted).toBeGreaterThan(0);
  expect((await refunds()).results).toEqual(unanswered);
  expect(await refundsGiven(order)).toHaveLength(1);
  expect((await paymentsOf(order))[0]).toMatchObject({ refunded_amount: 400 });
});

test("what the reconciler cannot settle is listed for the operator and does not hold up the others", async () => {
  const { clock, shop, order, account } = await crashed(crashes["before the commit"]!);
  clock.advance(2 * PENDING_TTL_MS + 1);
  const ADMIN_TOKEN = "operator-token-of-the-test";
  const operator = await openShop({ account, ports: clock, bindings: { ADMIN_TOKEN } });
  const [payment] = await paymentsOf(order);

  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const listed = await operator.send(new Request("http://shop.test/admin/unsettled", { headers }));
  await reconcileNow(clock);
  const after = await operator.send(new Request("http://shop.test/admin/unsettled", { headers }));

  expect(listed.body).toContain(payment!.id);
  expect(after.body).not.toContain(payment!.id);
  expect((await pay(shop, order, "k")).status).toBe(201);
});

const collectErrors = () => {
  const lines: Record<string, unknown>[] = [];
  vi.spyOn(console, "error").mockImplementation((line) => lines.push(JSON.parse(String(line))));
  return lines;
};

test("what the reconciler cannot settle is an error line that says why, with its key or without", async () => {
  const [keyed, keyless] = [
    await crashed(crashes["before the commit"]!),
    await crashed(crashes["before the commit"]!),
  ];
  const [[first], [second]] = [await paymentsOf(keyed.order), await paymentsOf(keyless.order)];
  await sql`DELETE FROM idempotency_keys WHERE principal = ${keyless.account.id} AND key = 'k'`.run();
  const [tooOld, inTime] = [25 * 3_600_000, 2 * PENDING_TTL_MS + 60_000];
  const lines = collectErrors();

  const report = await reconcileNow({ now: () => Date.now() + tooOld });

  expect(report.unsettled).toEqual(expect.arrayContaining([first!.id, second!.id]));
  const unsettled = { level: "error", event: "unsettled", outcome: "outcome_unknown" };
  const error = expect.objectContaining({ message: "too old to be asked again under its key" });
  expect(lines).toContainEqual(expect.objectContaining({ ...unsettled, id: first!.id, error }));
  expect(lines).toContainEqual(expect.objectContaining({ ...unsettled, id: second!.id, error }));
  expect(lines).toHaveLength(report.unsettled.length);
  await sql`UPDATE payments SET updated_at = 0`.run();
  await reconcileNow({ now: () => Date.now() + inTime });
});

test("what the reconciler stumbles over is an error line, too, and keeps nothing else waiting", async () => {
  const { order } = await crashed(crashes["before the commit"]!);
  const [payment] = await paymentsOf(order);
  const now = () => Date.now() + 2 * PENDING_TTL_MS + 60_000;
  const newId = () => {
    throw new TypeError("no more ids");
  };
  const lines = collectErrors();

  const report = await reconcileNow({ now, newId });

  expect(report).toEqual({ settled: [], unsettled: [payment!.id] });
  const error = expect.objectContaining({ message: "no more ids" });
  expect(lines).toEqual([
    expect.objectContaining({ level: "error", event: "unsettled", id: payment!.id, error }),
  ]);
  await reconcileNow({ now });
});
