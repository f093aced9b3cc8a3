import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { expect, test } from "vitest";

import { audit } from "../../src/operator/audit.ts";
import { type Fault, faultyD1, gate, passes } from "./faulty-d1.ts";
import { openShop, ordersOf, shelve, stockOf, TestClock } from "./shop.ts";
import { sandbox } from "./stripe-sandbox.ts";

const PENDING_TTL_MS = 30_000;
const UNITS = 100;
const CLAIMING = ["/lab/orders/two-transactions", "/lab/orders/unfenced"];
const KEYED = ["/lab/orders/select-then-insert", ...CLAIMING];
const NAIVE = ["/lab/orders/no-key", ...KEYED];

const order = (product: string, quantity = 1) => ({ items: [{ product_id: product, quantity }] });

/** Two doors to one shop with its lab open, on one clock: through `faulty` messages to D1 can be made to fail. */
async function openLab({ units = UNITS } = {}) {
  const clock = new TestClock();
  const d1 = faultyD1();
  const faulty = await openShop({ bindings: { DB: d1.DB, LAB: "on" }, ports: clock });
  const { account } = faulty;
  const healthy = await openShop({ account, bindings: { LAB: "on" }, ports: clock });
  const product = await shelve(account.id, { units });
  return { clock, d1, faulty, healthy, account, product };
}

type Lab = Awaited<ReturnType<typeof openLab>>;

test("without LAB=on the lab is not there: 404, exactly as any unknown path", async () => {
  const { account, post, send } = await openShop();
  const product = await shelve(account.id);
  const strip = ({ status, headers, json }: Awaited<ReturnType<typeof post>>) => {
    const named = [...headers].filter(([name]) => name !== "x-request-id");
    return { status, headers: named, problem: { ...json, request_id: null } };
  };
  const ask = async (path: string) => [
    strip(await post(path, order(product), "k")),
    strip(await post(path, order(product), null)),
    strip(await send(new Request(`http://shop.test${path}`, { method: "POST" }))),
    strip(await send(new Request(`http://shop.test${path}`))),
    strip(await send(new Request(`http://shop.test${path}`, { method: "DELETE" }))),
  ];

  const unknown = await ask("/nowhere");
  const lab = await Promise.all(NAIVE.map(ask));

  expect(unknown.map(({ status }) => status)).toEqual(Array(5).fill(404));
  expect(lab).toEqual(NAIVE.map(() => unknown));
  expect(await ordersOf(account.id)).toEqual([]);
});

test("the lab is not in the OpenAPI document, nor does it change it", async () => {
  const [closed, open] = [await openShop(), await openShop({ bindings: { LAB: "on" } })];

  const document = (await open.get("/openapi.json")).json;

  expect(document).toEqual((await closed.get("/openapi.json")).json);
  expect(JSON.stringify(document)).not.toContain("/lab/");
});

test.each(NAIVE)("%s places an order as POST /orders does", async (path) => {
  const { healthy, account, product } = await openLab();

  const real = await healthy.post("/orders", order(product, 2), "real");
  const naive = await healthy.post(path, order(product, 2), "naive");

  const [id, createdAt] = [expect.stringMatching(/^ord_/), expect.any(String)];
  expect(naive.status).toBe(201);
  expect(naive.json).toEqual({ ...real.json, id, created_at: createdAt });
  expect(naive.headers.get("location")).toBe(`/orders/${String(naive.json["id"])}`);
  expect(naive.headers.get("idempotent-replayed")).toBe("false");
  expect([...naive.headers.keys()]).toEqual([...real.headers.keys()]);
  expect((await healthy.get(`/orders/${String(naive.json["id"])}`)).json).toEqual(naive.json);
  expect(await ordersOf(account.id)).toHaveLength(2);
  expect(await stockOf(product)).toBe(UNITS - 4);
});

test.each(KEYED)("%s replays byte for byte, refusals too", async (path) => {
  const { healthy, account, product } = await openLab();

  const placed = await healthy.post(path, order(product), "k");
  const replay = await healthy.post(path, order(product), '"k"');
  const refused = await healthy.post(path, order(product, UNITS), "too many");
  const refusedAgain = await healthy.post(path, order(product, UNITS), "too many");

  expect([replay.status, replay.body]).toEqual([201, placed.body]);
  expect(replay.headers.get("location")).toBe(placed.headers.get("location"));
  expect(replay.headers.get("content-type")).toBe(placed.headers.get("content-type"));
  expect(replay.headers.get("idempotent-replayed")).toBe("true");
  expect(refused.json).toMatchObject({ status: 409, error: "insufficient_stock" });
  expect(refusedAgain.body).toBe(refused.body);
  expect(await ordersOf(account.id)).toHaveLength(1);
  expect(await stockOf(product)).toBe(UNITS - 1);
});

test.each(KEYED)(
  "%s refuses a key with another body; another account's or endpoint's is another key",
  async (path) => {
    const { healthy, account, product } = await openLab();
    const stranger = await openShop({ bindings: { LAB: "on" } });
    const theirs = await shelve(stranger.account.id);
    await healthy.post(path, order(product), "k");

    const other = await healthy.post(path, order(product, 2), "k");
    const strangers = await stranger.post(path, order(theirs), "k");
    const elsewhere = await Promise.all(
      KEYED.filter((naive) => naive !== path).map((naive) =>
        healthy.post(naive, order(product), "k"),
      ),
    );

    expect(other.json).toMatchObject({ status: 422, error: "idempotency_key_reused" });
    expect(strangers.status).toBe(201);
    expect(elsewhere.map(({ status }) => status)).toEqual([201, 201]);
    expect(await ordersOf(account.id)).toHaveLength(KEYED.length);
  },
);

test.each(CLAIMING)(
  "%s answers 409 while the claim's owner is executing, up to the TTL",
  async (path) => {
    const { clock, d1, faulty, healthy, account, product } = await openLab();
    const stall = gate();
    d1.next(passes, stall.fault);
    const slow = faulty.post(path, order(product), "k");
    await stall.reached;

    clock.advance(PENDING_TTL_MS - 1);
    const duplicate = await healthy.post(path, order(product), "k");
    const other = await healthy.post(path, order(product, 2), "k");
    stall.open();

    expect(duplicate.json).toMatchObject({ status: 409, error: "idempotency_key_in_progress" });
    expect(duplicate.headers.get("retry-after")).toBe("1");
    expect(other.json).toMatchObject({ status: 422, error: "idempotency_key_reused" });
    expect((await slow).status).toBe(201);
    expect(await ordersOf(account.id)).toHaveLength(1);
  },
);

test.each(NAIVE)("%s sells the last unit once: a constraint is no error", async (path) => {
  const { d1, faulty, healthy, account, product } = await openLab({ units: 1 });
  const commit = gate();
  const before = path === "/lab/orders/no-key" ? [passes] : [passes, passes];
  d1.next(...before, commit.fault);
  const slow = faulty.post(path, order(product), "slow");
  await commit.reached;

  const quick = await healthy.post(path, order(product), "quick");
  commit.open();

  expect(quick.status).toBe(201);
  expect((await slow).json).toMatchObject({ status: 409, error: "insufficient_stock" });
  expect(await ordersOf(account.id)).toHaveLength(1);
  expect(await stockOf(product)).toBe(0);
});

test.each(NAIVE)("%s authenticates and validates as POST /orders does", async (path) => {
  const { healthy, account } = await openLab();

  const anonymous = await healthy.send(new Request(`http://shop.test${path}`, { method: "POST" }));
  const invalid = await healthy.post(path, { items: [] }, "k");
  const unknown = await healthy.post(path, order("prod_0"), "k");

  expect(anonymous.json).toMatchObject({ status: 401, error: "unauthorized" });
  expect(invalid.json).toMatchObject({ status: 400, error: "invalid_request" });
  expect(unknown.json).toMatchObject({ status: 422, error: "unknown_product" });
  expect(await ordersOf(account.id)).toEqual([]);
});

test("a key is required where one is used", async () => {
  const { healthy, product } = await openLab();

  const keyless = await Promise.all(NAIVE.map((path) => healthy.post(path, order(product), null)));

  const required = KEYED.map(() => "idempotency_key_required");
  expect(keyless.map(({ json }) => json["error"])).toEqual([undefined, ...required]);
});

// Goal: each naive endpoint buys twice in the interleaving that its docstring names, and the real one does not.
// Method: one order, asked for twice under one key. What goes wrong is said in terms of the request and the database, so
// that it is the same for all: after its first message, or as soon as its order is there.

/** Everything passes until this account has an order. Nothing is heard of its sender after that. */
function diesOnceItsOrderIsThere({ account }: Lab): Fault {
  let isDead = false;
  return async (send) => {
    if (isDead) throw new Error("D1_ERROR: Network connection lost.");
    const result = await send();
    isDead = (await ordersOf(account.id)).length > 0;
    return result;
  };
}

const scenarios: Record<string, (lab: Lab, path: string) => Promise<void>> = {
  "its answer is lost on the way back": async ({ healthy, product }, path) => {
    await healthy.post(path, order(product), "k");
    await healthy.post(path, order(product), "k");
  },
  "it is sent twice at once": async ({ d1, faulty, healthy, product }, path) => {
    const pause = gate();
    d1.next(passes, pause.fault);
    const first = faulty.post(path, order(product), "k");
    await pause.reached;
    await healthy.post(path, order(product), "k");
    pause.open();
    await first;
  },
  "its owner dies once the order is there": async (lab, path) => {
    const { clock, d1, faulty, healthy, product } = lab;
    d1.next(...Array<Fault>(10).fill(diesOnceItsOrderIsThere(lab)));
    await faulty.post(path, order(product), "k");
    clock.advance(PENDING_TTL_MS);
    await healthy.post(path, order(product), "k");
  },
  "its owner stalls and is taken over": async (lab, path) => {
    const { clock, d1, faulty, healthy, product } = lab;
    const stall = gate();
    d1.next(passes, stall.fault);
    const slow = faulty.post(path, order(product), "k");
    await stall.reached;
    clock.advance(PENDING_TTL_MS);
    await healthy.post(path, order(product), "k");
    stall.open();
    await slow;
  },
};

/** Orders placed in each scenario, in the order above. */
const placed: Record<string, number[]> = {
  "/lab/orders/no-key": [2, 2, 2, 2],
  "/lab/orders/select-then-insert": [1, 2, 2, 2],
  "/lab/orders/two-transactions": [1, 1, 2, 2],
  "/lab/orders/unfenced": [1, 1, 1, 2],
  "/orders": [1, 1, 1, 1],
};

const matrix = Object.entries(placed).flatMap(([path, counts]) =>
  Object.keys(scenarios).map((scenario, i) => [path, scenario, counts[i]!] as const),
);

test.each(matrix)("%s, when %s: %i", async (path, scenario, expected) => {
  const lab = await openLab();

  await scenarios[scenario]!(lab, path);

  expect(await ordersOf(lab.account.id)).toHaveLength(expected);
  expect(await stockOf(lab.product)).toBe(UNITS - expected);
});

test("/lab/orders/unfenced lets the late owner put its response in the place of the one given out", async () => {
  const { clock, d1, faulty, healthy, product } = await openLab();
  const stall = gate();
  d1.next(passes, stall.fault);
  const slow = faulty.post("/lab/orders/unfenced", order(product), "k");
  await stall.reached;
  clock.advance(PENDING_TTL_MS);

  const givenOut = await healthy.post("/lab/orders/unfenced", order(product), "k");
  stall.open();
  const late = await slow;
  const replay = await healthy.post("/lab/orders/unfenced", order(product), "k");

  expect(givenOut.status).toBe(201);
  expect(replay.body).toBe(late.body);
  expect(replay.body).not.toBe(givenOut.body);
});

test("the audit finds the lab's orders: each is one that no key of the ledger stands behind", async () => {
  const { healthy, product } = await openLab();
  const violations = async () => {
    const { checks } = await audit(drizzle(env.DB), sandbox);
    return Object.fromEntries(checks.map((check) => [check.name, check.violations]));
  };

  const before = await violations();
  await healthy.post("/lab/orders/unfenced", order(product), "k");

  const found = before["effect_without_key"]! + 1;
  expect(await violations()).toEqual({ ...before, effect_without_key: found });
});
