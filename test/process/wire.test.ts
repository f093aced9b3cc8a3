import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, expect, test } from "vitest";

import { ACME, GLOBEX } from "../../scripts/demo-shop.ts";
import {
  type LocalService,
  prepareDatabase,
  startLocalService,
} from "../../scripts/local-service.ts";
import { badBytes } from "./bad-bytes.ts";
import { type Answer, openRequest, send, sendRaw } from "./http.ts";
import {
  bytesOf,
  headersOf,
  isFirstHand,
  isReplay,
  listOf,
  openWire,
  problemOf,
  type Wire,
} from "./wire.ts";

// What only shows over real sockets, against one service that has to survive all of it.

/** 160 times the limit for a body. */
const TEN_MEGABYTES = Buffer.alloc(10 * 1024 * 1024, "a");

let directory: string;
let service: LocalService;
let wire: Wire;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "idempotent-orders-test-"));
  const options = { persistTo: join(directory, "state"), tmpDir: directory };
  await prepareDatabase(options);
  service = await startLocalService(options);
  wire = openWire(service.url);
});

afterAll(async () => {
  await service.child.stop();
  await rm(directory, { recursive: true, force: true, maxRetries: 5 });
});

test("a body of 10 MB that announces its length is refused, and the service goes on", async () => {
  // Goal: the limit is enforced before the bytes are taken in, as often as somebody tries.
  const sent = { method: "POST", headers: headersOf(ACME, randomUUID()), body: TEN_MEGABYTES };

  const answers = [await send(wire.at("/orders"), sent), await send(wire.at("/orders"), sent)];

  expect(answers.map(problemOf)).toEqual(["413 body_too_large", "413 body_too_large"]);
  expect(await wire.takesOrders()).toBe(true);
});

test("a body of 10 MB in chunks, its length unknown, is refused, and the service goes on", async () => {
  // Goal: a client that is still sending hears why, instead of losing its connection.
  const answers: Answer[] = [];
  for (let round = 0; round < 5; round++) {
    const headers = headersOf(ACME, randomUUID());
    const { request, answer } = openRequest(wire.at("/orders"), { method: "POST", headers });
    request.write(TEN_MEGABYTES);
    request.end();
    answers.push(await answer);
  }

  expect(answers.map(problemOf)).toEqual(Array(5).fill("413 body_too_large"));
  expect(await wire.takesOrders()).toBe(true);
});

test("two Idempotency-Key headers are refused", async () => {
  // Goal: one client bug that would make two operations share a key, or one operation have two.
  const { body, orders } = await wire.newOrder(ACME);
  const headers = { ...headersOf(ACME, ""), "idempotency-key": [randomUUID(), randomUUID()] };

  const answer = await send(wire.at("/orders"), { method: "POST", headers, body });

  expect(problemOf(answer)).toBe("400 idempotency_key_invalid");
  expect(await orders()).toBe(0);
});

test("clients that hang up before their answer find one order each under their key", async () => {
  // Goal: whether the service had read the request, was executing it or had done so, the retry gets the one outcome.
  const { body, orders, sold } = await wire.newOrder(ACME);
  const keys = Array.from({ length: 20 }, () => randomUUID());

  await Promise.all(keys.map((key) => wire.hangUpAfter(body, key)));
  const retries = await Promise.all(keys.map((key) => wire.placeUntilFinal(ACME, body, key)));

  expect(retries.map(({ status }) => status)).toEqual(keys.map(() => 201));
  expect(new Set(retries.map(({ json }) => json["id"])).size).toBe(keys.length);
  expect(await orders()).toBe(keys.length);
  expect(await sold()).toBe(keys.length);
});

test("a client that hangs up half-way through its body has claimed nothing", async () => {
  // Goal: half a request is no request; the whole one, later, is the first.
  const { body, orders } = await wire.newOrder(ACME);
  const key = randomUUID();

  await wire.hangUpAfter(body.slice(0, 20), key, Buffer.byteLength(body));
  const claimed = await wire.keyStatus(ACME, key);
  const retry = await wire.place(ACME, body, key);

  expect(claimed.status).toBe(404);
  expect([retry.status, retry.headers["idempotent-replayed"]]).toEqual([201, "false"]);
  expect(await orders()).toBe(1);
});

test("a body that arrives in pieces is accepted, and claims its key only when it is complete", async () => {
  // Goal: a slow upload holds up nobody and uses up none of its own lease. Other requests are what passes the time.
  const { body, orders } = await wire.newOrder(ACME);
  const key = randomUUID();
  const slow = openRequest(wire.at("/orders"), { method: "POST", headers: headersOf(ACME, key) });

  const seenMeanwhile: number[] = [];
  for (const piece of body.match(/.{1,20}/gs)!) {
    slow.request.write(piece);
    seenMeanwhile.push((await wire.keyStatus(ACME, key)).status);
  }
  slow.request.end();
  const answer = await slow.answer;
  const { json: ledger } = await wire.keyStatus(ACME, key);

  expect(new Set(seenMeanwhile)).toEqual(new Set([404]));
  expect(answer.status).toBe(201);
  expect(ledger).toMatchObject({ status: "completed", generation: 1 });
  expect(await orders()).toBe(1);
});

test("bytes that HTTP or JSON does not allow are refused, never a 5xx", async () => {
  // Goal: no input byte reaches code that cannot stand it.
  const answers = await Promise.all(
    Object.entries(badBytes).map(async ([what, bytes]) => {
      const statusLine = (await sendRaw(service.url, bytes)).split("\r\n")[0];
      return `${what}: ${statusLine}`;
    }),
  );

  expect(answers.filter((answer) => !/: HTTP\/1\.1 4\d\d /.test(answer))).toEqual([]);
  expect(await wire.takesOrders()).toBe(true);
});

test("a browser on any origin may send a key and read what a retrying client needs", async () => {
  // Goal: the preflight allows the header, and the answer exposes what is not readable by default.
  const preflight = await send(wire.at("/orders"), {
    method: "OPTIONS",
    headers: {
      origin: "https://elsewhere.test",
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization,content-type,idempotency-key",
    },
  });
  const { body } = await wire.newOrder(ACME);
  const answer = await wire.place(ACME, body, randomUUID());

  expect([preflight.status, preflight.body]).toEqual([204, ""]);
  expect(preflight.headers["access-control-allow-origin"]).toBe("*");
  expect(listOf(preflight, "access-control-allow-methods")).toContain("post");
  expect(listOf(preflight, "access-control-allow-headers")).toEqual(
    expect.arrayContaining(["authorization", "content-type", "idempotency-key", "prefer"]),
  );
  expect(answer.headers["access-control-allow-origin"]).toBe("*");
  expect(listOf(answer, "access-control-expose-headers")).toEqual(
    expect.arrayContaining(["idempotent-replayed", "retry-after", "location", "x-request-id"]),
  );
});

test("HEAD answers as GET does, without a body", async () => {
  // Goal: probes and proxies that use HEAD are not refused.
  const get = await send(wire.at("/healthz"));
  const head = await send(wire.at("/healthz"), { method: "HEAD" });

  expect(get.json).toEqual({ status: "ok" });
  expect(bytesOf(head)).toBe(bytesOf({ ...get, body: "" }));
});

test("a method that an address does not have is 405 with Allow, an address that is not there 404", async () => {
  // Goal: a client with a wrong URL or method learns which of the two is wrong.
  const headers = { authorization: `Bearer ${ACME.apiKey}` };
  const refused = await Promise.all(
    ["DELETE", "PUT", "PATCH"].map((method) => send(wire.at("/orders"), { method, headers })),
  );
  const missing = await send(wire.at("/nowhere"), { method: "POST", headers });

  expect(refused.map(problemOf)).toEqual(Array(3).fill("405 method_not_allowed"));
  expect(refused.map((answer) => listOf(answer, "allow"))).toEqual(
    Array(3).fill(expect.arrayContaining(["get", "post"])),
  );
  expect(problemOf(missing)).toBe("404 not_found");
});

test("the OpenAPI document is served and describes the keyed routes", async () => {
  // Goal: a client can be generated from the running service.
  const { status, headers, json } = await send(wire.at("/openapi.json"));

  expect(status).toBe(200);
  expect(headers["content-type"]).toContain("application/json");
  expect(json).toMatchObject({ openapi: "3.1.0", servers: [{ url: service.url }] });
  const key = { name: "idempotency-key", in: "header", required: true };
  expect(json).toHaveProperty(
    ["paths", "/orders", "post", "parameters"],
    expect.arrayContaining([expect.objectContaining(key)]),
  );
});

test("200 identical orders at once over 200 sockets are one order, and every sender gets its bytes", async () => {
  // Goal: guarantees 1 and 2 of the design, from outside.
  const { body, orders, sold } = await wire.newOrder(ACME);
  const key = randomUUID();

  const firsts = await Promise.all(Array.from({ length: 200 }, () => wire.place(ACME, body, key)));
  const finals = await Promise.all(firsts.map(() => wire.placeUntilFinal(ACME, body, key)));

  const executed = firsts.filter(isFirstHand);
  const inProgress = firsts.filter(({ json }) => json["error"] === "idempotency_key_in_progress");
  const replays = firsts.filter(isReplay);
  expect(executed).toHaveLength(1);
  expect(executed.length + inProgress.length + replays.length).toBe(200);
  expect(inProgress.filter((answer) => !(Number(answer.headers["retry-after"]) >= 1))).toEqual([]);
  expect(new Set([...executed, ...replays, ...finals].map(bytesOf)).size).toBe(1);
  expect(finals.filter((answer) => !isReplay(answer))).toEqual([]);
  expect(await orders()).toBe(1);
  expect(await sold()).toBe(1);
});

test("40 keys with 64 duplicates each are 40 orders, with one body per key", async () => {
  // Goal: many keys under contention at the same time do not disturb each other. The server does the waiting.
  const { body, orders, sold } = await wire.newOrder(GLOBEX);
  const keys = Array.from({ length: 40 }, () => randomUUID());

  const answers = await Promise.all(
    keys.map((key) =>
      Promise.all(
        Array.from({ length: 64 }, () => wire.place(GLOBEX, body, key, { prefer: "wait=10" })),
      ),
    ),
  );

  expect(answers.map((same) => same.filter(isFirstHand).length)).toEqual(keys.map(() => 1));
  expect(answers.map((same) => same.filter(isReplay).length)).toEqual(keys.map(() => 63));
  expect(answers.map((same) => new Set(same.map(bytesOf)).size)).toEqual(keys.map(() => 1));
  expect(new Set(answers.map((same) => same[0]!.json["id"])).size).toBe(40);
  expect(await orders()).toBe(40);
  expect(await sold()).toBe(40);
});
