import { inspect } from "node:util";

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import type { Describe } from "../../src/client/client.ts";
import { type ProblemCode, PROBLEMS } from "../../src/problems.ts";
import {
  API_KEY,
  begins,
  connectionLost,
  done,
  garbled,
  page,
  problem,
  type Reply,
  scriptedService,
  settled,
  silence,
} from "./scripted-service.ts";

// ky's timers, Date and performance.now move together, and at once.
beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const ORDER = { id: "ord_1" };
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const items = [{ product_id: "prod_1", quantity: 2 }];
const placeOrder = (api: Parameters<Describe<unknown>>[0]) => api.orders.$post({ json: { items } });

/** Sends one order against the given replies. */
async function sendOrder(replies: Reply[], options?: Parameters<typeof scriptedService>[1]) {
  const service = scriptedService(replies, options);
  const operation = service.client.operation(placeOrder);
  const outcome = await settled(operation.send());
  return { ...service, operation, outcome };
}

test("an operation has its key before anything is sent, and every try sends it with the same bytes", async () => {
  const { client, tries } = scriptedService([
    connectionLost,
    problem("service_unavailable"),
    done(ORDER),
  ]);
  const operation = client.operation(placeOrder);
  await vi.runAllTimersAsync();
  expect(operation.key).toMatch(UUID);
  expect(tries).toEqual([]);

  const outcome = await settled(operation.send());

  expect(outcome).toEqual({ kind: "done", body: ORDER, isReplayed: false });
  expect(tries).toHaveLength(3);
  for (const one of tries) {
    expect(one).toMatchObject({
      method: "POST",
      url: "http://shop.test/orders",
      body: JSON.stringify({ items }),
    });
    expect(one.headers).toEqual({
      authorization: `Bearer ${API_KEY}`,
      "content-type": "application/json",
      "idempotency-key": operation.key,
      prefer: "wait=5",
    });
  }
});

test("the next operation has a key of its own", async () => {
  const { client, tries } = scriptedService([done(ORDER), done(ORDER)]);
  await settled(client.operation(placeOrder).send());
  await settled(client.operation(placeOrder).send());

  const [first, second] = tries.map(({ headers }) => headers["idempotency-key"]);
  expect(first).toMatch(UUID);
  expect(second).toMatch(UUID);
  expect(second).not.toBe(first);
});

test("an operation sent again is the same request under the same key, whatever became of its arguments", async () => {
  const { client, tries } = scriptedService([connectionLost, done(ORDER, { isReplayed: true })], {
    tries: 1,
  });
  const json = { items: [{ product_id: "prod_1", quantity: 2 }] };
  const operation = client.operation((api) => api.orders.$post({ json }));
  json.items[0]!.quantity = 3;

  const first = await settled(operation.send());
  json.items.pop();
  const second = await settled(operation.send());

  expect(first).toMatchObject({ kind: "outcome_unknown", key: operation.key });
  expect(second).toEqual({ kind: "done", body: ORDER, isReplayed: true });
  const [one, other] = tries;
  expect(other).toMatchObject({ body: JSON.stringify({ items }), headers: one!.headers });
  expect(one!.body).toBe(other!.body);
});

test("an operation whose caller was restarted goes on under the stored key", async () => {
  const before = await sendOrder([connectionLost], { tries: 1 });
  const after = scriptedService([done(ORDER, { isReplayed: true })]);
  const resumed = after.client.withKey(before.operation.key, placeOrder);
  const outcome = await settled(resumed.send());

  expect(outcome).toEqual({ kind: "done", body: ORDER, isReplayed: true });
  expect(resumed.key).toBe(before.operation.key);
  expect(after.tries.map(({ headers, body }) => ({ headers, body }))).toEqual(
    before.tries.map(({ headers, body }) => ({ headers, body })),
  );
});

test.each(Object.keys(PROBLEMS) as ProblemCode[])(
  "%s is tried again exactly if it says that this can help",
  async (code) => {
    const { tries, outcome } = await sendOrder([problem(code), done(ORDER)]);

    if (PROBLEMS[code].retryable) {
      expect(outcome).toMatchObject({ kind: "done" });
    } else {
      expect(outcome).toMatchObject({
        kind: "refused",
        problem: { error: code, request_id: "req_1" },
      });
    }
    expect(tries).toHaveLength(PROBLEMS[code].retryable ? 2 : 1);
  },
);

test.each([
  ["a connection that is lost", connectionLost],
  [
    "a failure that is no TypeError, as workerd throws it",
    async () => Promise.reject(new Error("lost")),
  ],
  ["a gateway's 502", page(502)],
  ["a gateway's 503", page(503)],
  ["a gateway's 504", page(504)],
  ["a gateway's 429", page(429)],
  ["a gateway's 500", page(500)],
] satisfies [string, Reply][])("%s is tried again", async (_what, reply) => {
  const { tries, outcome } = await sendOrder([reply, done(ORDER)]);

  expect(outcome).toMatchObject({ kind: "done" });
  expect(tries).toHaveLength(2);
});

test.each([
  ["invalid_request", 400],
  ["card_declined", 402],
  ["unknown_product", 422],
] as const)("%s is final, whatever it says of itself", async (code, status) => {
  const claim: Reply = async (request) => {
    const answer = await problem(code)(request);
    const body = { ...(await answer.json<object>()), retryable: true };
    return Response.json(body, { status, headers: answer.headers });
  };
  const { tries, outcome } = await sendOrder([claim]);

  expect(outcome).toMatchObject({ kind: "refused", problem: { error: code, status } });
  expect(tries).toHaveLength(1);
});

test("a problem keeps what its code adds", async () => {
  const products = [{ product_id: "prod_1", available: 1 }];
  const { outcome } = await sendOrder([problem("insufficient_stock", { products })]);

  expect(outcome).toMatchObject({
    kind: "refused",
    problem: { error: "insufficient_stock", status: 409, retryable: false, products },
  });
});

test("without a word from the service, waits double up to a limit, and are spread", async () => {
  const lost = Array.from({ length: 6 }, () => connectionLost);
  const options = { tries: 7, firstBackoffMs: 100, maxBackoffMs: 1000 };
  const whole = await sendOrder([...lost, done(ORDER)], options);
  const half = await sendOrder([...lost, done(ORDER)], { ...options, random: () => 0.5 });

  expect(whole.waitsMs()).toEqual([100, 200, 400, 800, 1000, 1000]);
  expect(half.waitsMs()).toEqual([50, 100, 200, 400, 500, 500]);
});

test.each([
  [
    "retry_after_ms before Retry-After",
    problem("idempotency_key_in_progress", {
      retry_after_ms: 150,
      headers: { "retry-after": "1" },
    }),
    150,
  ],
  [
    "Retry-After of a problem",
    problem("service_unavailable", { headers: { "retry-after": "3" } }),
    3000,
  ],
  ["Retry-After of a gateway", page(503, { "retry-after": "4" }), 4000],
  [
    "Retry-After of a limiter",
    problem("rate_limited", { isKeyed: false, headers: { "retry-after": "10" } }),
    10_000,
  ],
  ["a zero", problem("outcome_unknown", { headers: { "retry-after": "0" } }), 0],
  // V8 takes most of these for dates, in the past.
  ...["soon", "", "-5", "1.5", "+5", "Mon, 5", "1, 2"].map(
    (unreadable): [string, Reply, number] => [
      `its own backoff, where Retry-After is ${JSON.stringify(unreadable)}`,
      page(503, { "retry-after": unreadable }),
      200,
    ],
  ),
  [
    "Retry-After, where retry_after_ms is before now",
    problem("outcome_unknown", { retry_after_ms: -5000, headers: { "retry-after": "1" } }),
    1000,
  ],
] satisfies [string, Reply, number][])("it waits for %s", async (_what, reply, waitMs) => {
  const { waitsMs, outcome } = await sendOrder([reply, done(ORDER)]);

  expect(outcome).toMatchObject({ kind: "done" });
  expect(waitsMs()).toEqual([waitMs]);
});

test("Retry-After may be a date, and one that has passed means now", async () => {
  vi.setSystemTime("2026-11-01T00:00:00Z");
  const past = page(503, { "retry-after": "Sat, 31 Oct 2026 00:00:00 GMT" });
  const future = page(503, { "retry-after": "Sun, 01 Nov 2026 00:00:05 GMT" });
  const { waitsMs } = await sendOrder([past, future, done(ORDER)]);

  expect(waitsMs()).toEqual([0, 5000]);
});

test("told the same again, it waits no less than it would by itself", async () => {
  const now = page(429, { "retry-after": "0" });
  const soon = problem("idempotency_key_in_progress", { retry_after_ms: 150 });
  const { waitsMs } = await sendOrder([now, now, soon, now, done(ORDER)], { firstBackoffMs: 50 });

  expect(waitsMs()).toEqual([0, 100, 200, 400]);
});

test("another try that is executing uses up none of its tries, only its time", async () => {
  const executing = problem("idempotency_key_in_progress", { retry_after_ms: 150 });
  const replies = Array.from({ length: 9 }, () => executing);
  const replayed = done(ORDER, { isReplayed: true });
  const options = { tries: 2, maxBackoffMs: 200 };

  const ended = await sendOrder([...replies, connectionLost, ...replies, replayed], options);
  expect(ended.outcome).toMatchObject({ kind: "done", isReplayed: true });
  expect(ended.tries).toHaveLength(20);

  const endless = await sendOrder([...replies, replayed], { ...options, totalTimeoutMs: 1000 });
  expect(endless.outcome).toMatchObject({
    kind: "outcome_unknown",
    cause: { problem: { error: "idempotency_key_in_progress" } },
  });
  expect(endless.tries).toHaveLength(6);
});

test("once its tries are used up, the caller knows that the outcome is unknown, and goes on by the key", async () => {
  const unavailable = problem("service_unavailable", { headers: { "retry-after": "1" } });
  const { client, operation, outcome, tries } = await sendOrder(
    [unavailable, unavailable, unavailable, done(ORDER, { isReplayed: true })],
    { tries: 3 },
  );
  expect(outcome).toMatchObject({
    kind: "outcome_unknown",
    key: operation.key,
    cause: { kind: "problem", problem: { error: "service_unavailable" }, retryAfterMs: 1000 },
  });
  expect(tries).toHaveLength(3);

  const later = await settled(client.withKey(operation.key, placeOrder).send());
  expect(later).toEqual({ kind: "done", body: ORDER, isReplayed: true });
});

test("a try that gets no answer in time is given up and made again", async () => {
  const { outcome, tries, waitsMs } = await sendOrder([silence, done(ORDER)], {
    tryTimeoutMs: 5000,
  });

  expect(outcome).toMatchObject({ kind: "done" });
  expect(waitsMs()).toEqual([5200]);
  // The service's own waiting ends well before that.
  expect(tries.map(({ headers }) => headers["prefer"])).toEqual(["wait=1", "wait=1"]);
});

test("so is one whose answer begins and breaks off, or never ends", async () => {
  const breaksOff = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{"id":'));
      controller.error(new TypeError("terminated"));
    },
  });
  const neverEnds = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{"id":'));
    },
  });
  const { outcome, waitsMs } = await sendOrder(
    [begins(breaksOff), begins(neverEnds), done(ORDER, { isReplayed: true })],
    { tryTimeoutMs: 5000 },
  );
  expect(outcome).toEqual({ kind: "done", body: ORDER, isReplayed: true });
  expect(waitsMs()).toEqual([200, 5400]);
});

const TRUNCATED = '{"type":"/problems/';
test.each([
  ["201 without a body", garbled(201, "")],
  ["204", garbled(204, null)],
  ["201 with null", garbled(201, "null")],
  ["201 with half an order", garbled(201, '{"id":"ord')],
  ["409 without a body", garbled(409, "")],
  ["409 with half a problem", garbled(409, TRUNCATED)],
  ["409 with what is no problem", garbled(409, "{}")],
  [
    "401 with half a problem, from before the key was looked at",
    garbled(401, TRUNCATED, { "content-type": "application/problem+json" }),
  ],
] satisfies [string, Reply][])(
  "so is one whose answer broke off and does not show it: %s",
  async (_what, reply) => {
    const replayed = done(ORDER, { isReplayed: true });
    const { outcome, tries } = await sendOrder([reply, replayed]);
    expect(outcome).toEqual({ kind: "done", body: ORDER, isReplayed: true });
    expect(tries).toHaveLength(2);

    const alone = await sendOrder([reply, replayed], { tries: 1 });
    expect(alone.outcome).toMatchObject({ kind: "outcome_unknown", cause: { kind: "garbled" } });
  },
);

test("what is left of an answer still says when to come back", async () => {
  const headers = { "idempotent-replayed": "false", "retry-after": "3" };
  const { waitsMs } = await sendOrder([garbled(409, TRUNCATED, headers), done(ORDER)]);
  expect(waitsMs()).toEqual([3000]);
});

test("all tries together end in time", async () => {
  const start = Date.now();
  const { outcome, tries } = await sendOrder([silence, silence, silence], {
    tryTimeoutMs: 4000,
    totalTimeoutMs: 10_000,
  });
  expect(outcome).toMatchObject({ kind: "outcome_unknown", cause: { kind: "timeout" } });
  expect(tries.map(({ atMs }) => atMs)).toEqual([0, 4200, 8600]);
  expect(Date.now() - start).toBe(10_000);
});

test("a clock that is set meanwhile neither ends nor prolongs it", async () => {
  const setClock = (hours: number) => vi.setSystemTime(Date.now() + hours * 3_600_000);
  const ahead: Reply = async (request) => {
    setClock(1);
    return connectionLost(request);
  };
  const back: Reply = async (request) => {
    setClock(-2);
    return page(503, { "retry-after": "60" })(request);
  };
  expect((await sendOrder([ahead, done(ORDER)])).outcome).toMatchObject({ kind: "done" });
  const { outcome, tries } = await sendOrder([back, done(ORDER)]);
  expect(outcome).toMatchObject({ kind: "outcome_unknown", cause: { retryAfterMs: 60_000 } });
  expect(tries).toHaveLength(1);
});

test("told to come back after its time is over, it says so at once", async () => {
  const start = Date.now();
  const { outcome, tries } = await sendOrder([
    problem("rate_limited", { isKeyed: false, headers: { "retry-after": "3600" } }),
  ]);
  expect(outcome).toMatchObject({
    kind: "outcome_unknown",
    cause: { problem: { error: "rate_limited" }, retryAfterMs: 3_600_000 },
  });
  expect(tries).toHaveLength(1);
  expect(Date.now() - start).toBe(0);
});

test.each([
  ["during a try", silence, 1],
  ["between two tries", page(503, { "retry-after": "30" }), 1],
])("an abort %s ends it there, with the key", async (_when, reply, expectedTries) => {
  const { client, tries } = scriptedService([reply]);
  const operation = client.operation(placeOrder);
  const controller = new AbortController();
  const sending = operation.send({ signal: controller.signal });
  await vi.advanceTimersByTimeAsync(1000);
  controller.abort("closed");

  expect(await sending).toEqual({
    kind: "outcome_unknown",
    key: operation.key,
    cause: { kind: "aborted", reason: "closed" },
  });
  await vi.runAllTimersAsync();
  expect(tries).toHaveLength(expectedTries);
});

test.each([
  ["done", done(ORDER)],
  ["refused", problem("insufficient_stock")],
] satisfies [string, Reply][])(
  "an abort after the answer has come does not hide it: %s",
  async (kind, reply) => {
    const controller = new AbortController();
    const { client } = scriptedService([
      async (request) => {
        const answer = await reply(request);
        controller.abort();
        return answer;
      },
    ]);
    const { signal } = controller;
    expect(await settled(client.operation(placeOrder).send({ signal }))).toMatchObject({ kind });
  },
);

test("aborted beforehand, it sends nothing, even through a fetch that knows no signals", async () => {
  const { client, tries } = scriptedService([done(ORDER)]);
  const signal = AbortSignal.abort();
  const outcome = await settled(client.operation(placeOrder).send({ signal }));

  expect(outcome).toMatchObject({ kind: "outcome_unknown", cause: { kind: "aborted" } });
  expect(tries).toEqual([]);
});

test("a refusal from before the key was looked at says nothing of an earlier try that may have arrived", async () => {
  const unauthorized = problem("unauthorized", { isKeyed: false });
  const unknown = { kind: "outcome_unknown", cause: { problem: { error: "unauthorized" } } };

  const alone = await sendOrder([unauthorized, unauthorized]);
  expect(alone.outcome).toMatchObject({ kind: "refused", problem: { error: "unauthorized" } });
  // The one before did nothing either.
  expect(await settled(alone.operation.send())).toMatchObject({ kind: "refused" });

  const afterLimit = await sendOrder([problem("rate_limited", { isKeyed: false }), unauthorized]);
  expect(afterLimit.outcome).toMatchObject({ kind: "refused" });

  const afterLoss = await sendOrder([connectionLost, unauthorized]);
  expect(afterLoss.outcome).toMatchObject(unknown);

  const lost = await sendOrder([connectionLost, unauthorized], { tries: 1 });
  expect(await settled(lost.operation.send())).toMatchObject(unknown);

  const { client } = scriptedService([unauthorized]);
  expect(await settled(client.withKey("stored", placeOrder).send())).toMatchObject(unknown);
});

test("a try that was not sent has not arrived, and one under way may have", async () => {
  const unauthorized = problem("unauthorized", { isKeyed: false });
  const limited = problem("rate_limited", { isKeyed: false, headers: { "retry-after": "30" } });
  const { client } = scriptedService([limited, unauthorized, silence, unauthorized]);
  const operation = client.operation(placeOrder);
  await operation.send({ signal: AbortSignal.abort() });
  const controller = new AbortController();
  const waiting = operation.send({ signal: controller.signal });
  await vi.advanceTimersByTimeAsync(1000);
  controller.abort();
  expect(await waiting).toMatchObject({ kind: "outcome_unknown", cause: { kind: "aborted" } });
  expect(await settled(operation.send())).toMatchObject({ kind: "refused" });

  const underWay = operation.send();
  await vi.advanceTimersByTimeAsync(1000);
  expect(await operation.send()).toMatchObject({ kind: "outcome_unknown" });
  await settled(underWay);
});

test("a refusal that is about the key is final after a lost try, too", async () => {
  const { outcome } = await sendOrder([connectionLost, problem("insufficient_stock")]);
  expect(outcome).toMatchObject({ kind: "refused", problem: { error: "insufficient_stock" } });
});

const list: Reply = async () => Response.json({ data: [], has_more: false });
test.each([
  ["a portal's page", page(200), 200],
  ["a firewall's page", page(403), 403],
  [
    "JSON that is not the service's",
    async () => Response.json({ ok: false }, { status: 409 }),
    409,
  ],
  ["a list that some proxy has made of it", list, 200],
] satisfies [string, Reply, number][])(
  "%s is no answer to an operation",
  async (_what, reply, status) => {
    const { operation, outcome, tries } = await sendOrder([reply]);

    expect(outcome).toMatchObject({
      kind: "outcome_unknown",
      key: operation.key,
      cause: { kind: "foreign", status },
    });
    expect(tries).toHaveLength(1);
  },
);

test("an array is no answer to a read either: the service's answers are objects", async () => {
  const { client } = scriptedService([async () => Response.json([1])], { tries: 1 });
  const found = await settled(client.read((api) => api.orders.$get({ query: {} })));

  expect(found).toMatchObject({ kind: "unavailable", cause: { kind: "foreign", status: 200 } });
});

test("a read needs no key, and is tried again", async () => {
  const halfAList = garbled(200, '{"data":[', { "content-type": "application/json" });
  const { client, tries } = scriptedService([connectionLost, page(502), halfAList, list]);
  const found = await settled(
    client.read((api) => api.orders.$get({ query: { limit: 5, status: "paid" } })),
  );

  expect(found).toMatchObject({ kind: "done", body: { data: [], has_more: false } });
  expect(tries.map(({ method, url }) => `${method} ${url}`)).toEqual(
    Array.from({ length: 4 }, () => "GET http://shop.test/orders?limit=5&status=paid"),
  );
  expect(tries[0]!.headers).toEqual({ authorization: `Bearer ${API_KEY}` });
});

test("a read says no, and that there is no answer", async () => {
  const { client } = scriptedService([problem("not_found", { isKeyed: false }), silence], {
    tries: 1,
  });
  const read = () =>
    settled(client.read((api) => api.orders[":id"].$get({ param: { id: "ord_1" } })));

  expect(await read()).toMatchObject({ kind: "refused", problem: { error: "not_found" } });
  expect(await read()).toEqual({ kind: "unavailable", cause: { kind: "timeout" } });
});

test("a parameter stays in its place in the path", async () => {
  const { client, tries } = scriptedService([list, list]);
  const read = (key: string) =>
    settled(client.read((api) => api["idempotency-keys"][":key"].$get({ param: { key } })));
  await read("a/b?c#d %e");

  expect(tries.map(({ url }) => url)).toEqual([
    "http://shop.test/idempotency-keys/a%2Fb%3Fc%23d%20%25e",
  ]);
  for (const key of ["", ".", ".."]) await expect(read(key)).rejects.toThrow(/^bug: /);
  expect(tries).toHaveLength(1);
});

test("what would send without a key, or twice under one, is a bug before anything is sent", async () => {
  const { client, tries } = scriptedService([]);
  const untyped = client as unknown as {
    read: (describe: (api: Untyped) => unknown) => Promise<unknown>;
    operation: (describe: (api: Untyped) => unknown) => { send: () => Promise<unknown> };
    withKey: (key: unknown, describe: unknown) => unknown;
  };
  await expect(untyped.read((api) => api.orders!.$post!())).rejects.toThrow(
    "bug: a POST needs an operation",
  );
  await expect(untyped.operation((api) => api.orders!.$get!()).send()).rejects.toThrow(
    /^bug: a GET/,
  );
  const two = untyped.operation(async (api) => {
    await api.orders!.$post!({ json: 1 });
    return api.orders!.$post!({ json: 2 });
  });
  await expect(two.send()).rejects.toThrow("bug: 2 requests");
  for (const key of [undefined, null, "", " a", "a b", "ä", "a\n", "a,b", '"a"', "a".repeat(256)]) {
    expect(() => untyped.withKey(key, placeOrder)).toThrow(/^bug: /);
  }
  expect(tries).toEqual([]);
});

type Untyped = Record<string, Record<string, (...args: unknown[]) => unknown>>;

test("a caller can change neither the key nor who sends it", async () => {
  const { client, tries } = scriptedService([done(ORDER)]);
  const elsewhere = vi.fn<typeof fetch>();
  const operation = client.operation((api) => {
    const post = api.orders.$post as (...args: unknown[]) => ReturnType<typeof placeOrder>;
    const header = { "idempotency-key": "mine" };
    return post(
      { json: { items }, header },
      { fetch: elsewhere, headers: header, init: { headers: header } },
    );
  });
  await settled(operation.send());

  expect(elsewhere).not.toHaveBeenCalled();
  expect(tries.map(({ headers }) => headers["idempotency-key"])).toEqual([operation.key]);
});

test("no outcome holds the API key, so that it may be logged", async () => {
  const outcomes = await Promise.all(
    [connectionLost, silence, page(403), problem("unauthorized"), problem("internal_error")].map(
      async (reply) => (await sendOrder([reply], { tries: 1 })).outcome,
    ),
  );
  expect(outcomes).toHaveLength(5);
  expect(inspect(outcomes, { depth: null, showHidden: true })).not.toContain(API_KEY);
});

test.each([
  { baseUrl: "no url" },
  { baseUrl: "/api" },
  { baseUrl: "http://shop.test:port" },
  { baseUrl: "ftp://shop.test" },
  { baseUrl: "http://shop.test?debug=1" },
  { baseUrl: "http://shop.test#orders" },
  { tries: 0 },
  { tries: Number.NaN },
])("a setting with which nothing can be sent is a bug: %j", (options) => {
  expect(() => scriptedService([], options)).toThrow(`bug: ${Object.keys(options)[0]!} `);
});

test.each([
  { apiKey: "" },
  { apiKey: `${API_KEY}\nx` },
  { apiKey: ` ${API_KEY}` },
  { apiKey: `${API_KEY}ä` },
  { baseUrl: `http://shop:${API_KEY}@shop.test` },
  { baseUrl: `http://${API_KEY}@shop.test` },
  { baseUrl: `http://shop:${API_KEY}@shop.test:port` },
])(
  "so is one that would be thrown with its secret, and the bug does not tell it: %j",
  (options) => {
    let thrown: unknown;
    try {
      scriptedService([], options);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toMatchObject({ message: expect.stringMatching(/^bug: (apiKey|baseUrl) /) });
    expect(inspect(thrown, { depth: null, showHidden: true })).not.toContain(API_KEY);
  },
);

test("so is a time that no timer keeps, once something is to be sent in it", async () => {
  const { client, tries } = scriptedService([], { tryTimeoutMs: Number.POSITIVE_INFINITY });
  await expect(settled(client.operation(placeOrder).send())).rejects.toThrow(RangeError);
  expect(tries).toEqual([]);
});

test("no time to send in is no bug, and shows no secret either", async () => {
  const { client, tries } = scriptedService([], { totalTimeoutMs: 0 });
  const outcome = await settled(client.operation(placeOrder).send());

  expect(outcome).toMatchObject({ kind: "outcome_unknown", cause: { kind: "timeout" } });
  expect(tries).toEqual([]);
});
