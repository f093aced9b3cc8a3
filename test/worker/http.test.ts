import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { isKeyed } from "../../src/idempotency/handler.ts";
import { PROBLEMS } from "../../src/problems.ts";
import { faultyD1 } from "./faulty-d1.ts";
import { createAccount, openShop, postRequest, shelve, sql } from "./shop.ts";
import { mounting, PATH } from "./test-mutation.ts";

const UNSAFE = new Set(["POST", "PATCH", "DELETE", "PUT", "ALL"]);
const order = (product: string) => ({ items: [{ product_id: product, quantity: 1 }] });

// The route table lists a path's middleware and its handler alike; the handler is what stands last.
function mutationsOf(routes: { method: string; path: string; handler: unknown }[]) {
  const last = new Map(
    routes
      .filter(({ method, path }) => UNSAFE.has(method) && path !== "/*")
      .map((route) => [`${route.method} ${route.path}`, route.handler as object]),
  );
  return [...last];
}

test("every route that changes something is mounted through the ledger", async () => {
  const { app } = await openShop();
  const mutations = mutationsOf(app.routes);

  // Routes of every part of the shop were looked at; a fork's own are looked at, too.
  expect(mutations.map(([route]) => route)).toEqual(
    expect.arrayContaining(["POST /orders", "POST /products", "POST /webhooks/stripe"]),
  );
  expect(mutations.filter(([, handler]) => !isKeyed(handler))).toEqual([]);
});

test("the walk over the routes notices one that bypasses the ledger", async () => {
  const { app } = await openShop({
    mount: (own) => void own.patch("/orders/:id", (c) => c.text("changed")),
  });

  const bypassing = mutationsOf(app.routes).filter(([, handler]) => !isKeyed(handler));

  expect(bypassing.map(([route]) => route)).toEqual(["PATCH /orders/:id"]);
});

test("the lab's naive endpoints are the only ones that bypass the ledger, and only with LAB on", async () => {
  const { app } = await openShop({ bindings: { LAB: "on" } });

  const bypassing = mutationsOf(app.routes).filter(([, handler]) => !isKeyed(handler));

  expect(bypassing.map(([route]) => route)).toEqual([
    "POST /lab/orders/no-key",
    "POST /lab/orders/select-then-insert",
    "POST /lab/orders/two-transactions",
    "POST /lab/orders/unfenced",
  ]);
});

// A webhook's key is its event's id: it has tests of its own.
const callersMutationsOf = (routes: Parameters<typeof mutationsOf>[0]) =>
  mutationsOf(routes)
    .map(([route]) => route)
    .filter((route) => !route.includes("/webhooks/"));

test("every mutation refuses a request without a key, also where its body is wrong", async () => {
  const { app, post } = await openShop();
  const paths = callersMutationsOf(app.routes).map((route) =>
    route.split(" ")[1]!.replace(":id", "x"),
  );

  const answers = await Promise.all(paths.map((path) => post(path, { wrong: true }, null)));

  expect(answers.map(({ json }) => json["error"])).toEqual(
    paths.map(() => "idempotency_key_required"),
  );
});

test("the OpenAPI document describes every route, with its key, its answers and its problems", async () => {
  const { app, get } = await openShop();

  const document = (await get("/openapi.json")).json as {
    openapi: string;
    paths: Record<
      string,
      Record<string, { parameters?: { name: string; required?: boolean }[]; responses: object }>
    >;
  };

  const routed = callersMutationsOf(app.routes).map((route) => route.replace(/:(\w+)/g, "{$1}"));
  const described = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const keyOf = (route: string) => {
    const [method, path] = route.split(" ") as [string, string];
    const { parameters = [] } = document.paths[path]![method.toLowerCase()]!;
    return parameters.find(({ name }) => name === "idempotency-key");
  };
  expect(document.openapi).toBe("3.1.0");
  expect(described).toEqual(expect.arrayContaining(routed));
  expect(routed.map(keyOf)).toEqual(routed.map(() => expect.objectContaining({ required: true })));
  expect(Object.keys(document.paths["/orders"]!["post"]!.responses)).toEqual([
    "201",
    "400",
    "401",
    "409",
    "413",
    "415",
    "422",
    "429",
    "500",
    "503",
  ]);
});

test("every key that the OpenAPI document asks for is one that it describes", async () => {
  const { get } = await openShop();

  const document = (await get("/openapi.json")).json as {
    paths: Record<string, Record<string, { security?: Record<string, unknown>[] }>>;
    components: { securitySchemes: object };
  };

  const asked = Object.values(document.paths)
    .flatMap((methods) => Object.values(methods))
    .flatMap(({ security = [] }) => security.flatMap((scheme) => Object.keys(scheme)));
  const described = Object.keys(document.components.securitySchemes);
  expect(new Set(asked)).toEqual(new Set(described));
});

test("every problem's type resolves to a page that says what to do", async () => {
  const { post, get } = await openShop();
  const refused = await post("/orders", {}, null);
  const type = String(refused.json["type"]);
  const pages = await Promise.all(Object.keys(PROBLEMS).map((code) => get(`/problems/${code}`)));

  expect(type).toBe("/problems/idempotency_key_required");
  expect((await get(type)).body).toContain("Make one key per operation");
  expect(pages.map(({ status }) => status)).toEqual(pages.map(() => 200));
  expect((await get("/problems/toString")).status).toBe(404);
  expect((await get("/problems")).body).toContain("idempotency_key_reused");
});

test("a browser may send the key and read what a retry needs", async () => {
  const { account, send, bindings } = await openShop();
  const product = await shelve(account.id);
  const preflight = new Request("http://shop.test/orders", {
    method: "OPTIONS",
    headers: { origin: "https://a.example", "access-control-request-method": "POST" },
  });
  const request = postRequest(account, "/orders", order(product), "k", {
    origin: "https://a.example",
  });
  const own = await openShop({
    account,
    bindings: { ...bindings, CORS_ORIGIN: "https://b.example" },
  });

  const allowed = await send(preflight.clone());
  const answer = await send(request);
  const elsewhere = await own.send(preflight);

  const exposed = answer.headers.get("access-control-expose-headers")!.split(",");
  expect(allowed.headers.get("access-control-allow-origin")).toBe("*");
  expect(allowed.headers.get("access-control-allow-headers")).toContain("Idempotency-Key");
  expect(answer.headers.get("access-control-allow-origin")).toBe("*");
  expect(exposed).toEqual(
    expect.arrayContaining(["Idempotent-Replayed", "Location", "Retry-After", "X-Request-Id"]),
  );
  expect(elsewhere.headers.get("access-control-allow-origin")).toBe("https://b.example");
});

test("every answer carries its request id and secure headers, a problem repeats the id", async () => {
  const { get, send } = await openShop();
  const refused = await get("/nowhere");
  const named = await send(
    new Request("http://shop.test/healthz", { headers: { "x-request-id": "my-id-1" } }),
  );

  expect(refused.json["request_id"]).toBe(refused.headers.get("x-request-id"));
  expect(refused.headers.get("x-content-type-options")).toBe("nosniff");
  expect(named.headers.get("x-request-id")).toBe("my-id-1");
  expect(named.json).toEqual({ status: "ok" });
});

test("every keyed answer says whether it is a replay, refusals before the ledger included", async () => {
  const { account, post } = await openShop();
  const product = await shelve(account.id);

  const answers = [
    await post("/orders", order(product), "k"),
    await post("/orders", order(product), "k"),
    await post("/orders", { items: [] }, "k"),
    await post("/orders", "not json", "other"),
    await post("/orders", order(product), "k", { "x-api-version": "2" }),
  ];

  expect(answers.map(({ headers }) => headers.get("idempotent-replayed"))).toEqual([
    "false",
    "true",
    "false",
    "false",
    "false",
  ]);
});

test("a caller without a valid API key gets 401 with WWW-Authenticate", async () => {
  const { send } = await openShop();
  const get = (authorization?: string) =>
    send(
      new Request(
        "http://shop.test/orders",
        authorization === undefined ? {} : { headers: { authorization } },
      ),
    );

  const [none, basic, wrong] = [await get(), await get("Basic YTpi"), await get("Bearer nobody")];

  expect([none, basic, wrong].map(({ json }) => json["error"])).toEqual(
    Array(3).fill("unauthorized"),
  );
  expect(none.headers.get("www-authenticate")).toBe("Bearer");
  expect(wrong.headers.get("www-authenticate")).toBe('Bearer error="invalid_token"');
});

test("the scheme of Authorization is case-insensitive", async () => {
  const ADMIN_TOKEN = "operator-token+/~.-_===";
  const { account, send } = await openShop({ bindings: { ADMIN_TOKEN } });
  const statusWith = async (path: string, token: string) => {
    const headers = { authorization: `bEARER  ${token}` };
    return (await send(new Request(`http://shop.test${path}`, { headers }))).status;
  };

  expect(await statusWith("/orders", account.apiKey)).toBe(200);
  expect(await statusWith("/admin/audit", ADMIN_TOKEN)).toBe(200);
  expect(await statusWith("/admin/audit", `${ADMIN_TOKEN}=`)).toBe(401);
});

test("a new account works at once; a revoked key works for 30 s more at most, however busy it is", async () => {
  vi.useFakeTimers();
  const account = await createAccount();
  const { get } = await openShop({ account });
  await sql`DELETE FROM accounts WHERE id = ${account.id}`.run();

  const within: number[] = [];
  for (let second = 0; second < 29; second++) {
    vi.advanceTimersByTime(1_000);
    within.push((await get("/products")).status);
  }
  vi.advanceTimersByTime(1_001);
  const after = await get("/products");

  expect(new Set(within)).toEqual(new Set([200]));
  expect(after.status).toBe(401);
});

let lines: Record<string, unknown>[];
beforeEach(() => {
  lines = [];
  const collect = (line: string) => void lines.push(JSON.parse(line));
  vi.spyOn(console, "info").mockImplementation(collect);
  vi.spyOn(console, "error").mockImplementation(collect);
});
afterEach(() => {
  vi.useRealTimers();
});

test("a request is one log line that names no key, no account, no body and no bound value", async () => {
  const { account, post, get } = await openShop();
  const product = await shelve(account.id);
  lines.length = 0;

  await post("/orders", { ...order(product), reference: "secret-reference" }, "secret-key");
  await post("/orders", { ...order(product), reference: "secret-reference" }, "secret-key");
  await get("/idempotency-keys/secret-key");

  const text = JSON.stringify(lines);
  expect(lines).toHaveLength(3);
  expect(lines[0]).toMatchObject({
    level: "info",
    method: "POST",
    route: "/orders",
    status: 201,
    outcome: "executed",
    generation: 1,
    d1_round_trips: 2,
    principal: expect.stringMatching(/^[0-9a-f]{16}$/),
    key: expect.stringMatching(/^[0-9a-f]{16}$/),
  });
  expect(lines[1]).toMatchObject({ outcome: "replayed", key: lines[0]!["key"], d1_round_trips: 1 });
  expect(lines[2]).toMatchObject({ route: "/idempotency-keys/:key" });
  expect(text).not.toMatch(/secret-/);
  expect(text).not.toContain(account.id);
  expect(text).not.toContain(account.apiKey);
});

test("a failed query is logged without its bound values and answered without details", async () => {
  const d1 = faultyD1();
  const { get } = await openShop({ bindings: { DB: d1.DB } });
  lines.length = 0;

  d1.next(() => {
    throw new Error("D1_ERROR: no such column: nonsense: SQLITE_ERROR");
  });
  const answer = await get("/products/prod_secret-id");

  const text = JSON.stringify(lines);
  expect(answer.json).toMatchObject({ status: 500, error: "internal_error" });
  expect(answer.body).not.toContain("nonsense");
  expect(lines).toEqual([expect.objectContaining({ level: "error", route: "/products/:id" })]);
  expect(text).toContain("no such column: nonsense");
  expect(text).not.toContain("secret-id");
});

test("a mutation's exception is in the log, with its request id, and not in the answer", async () => {
  const { post } = await openShop({
    mount: mounting(() => {
      throw new Error("the reason");
    }),
  });
  lines.length = 0;

  const answer = await post(PATH, {}, "k");

  expect(answer.body).not.toContain("the reason");
  expect(lines).toEqual([
    expect.objectContaining({
      level: "error",
      outcome: "failed",
      request_id: answer.json["request_id"],
      error: expect.objectContaining({ message: "the reason" }),
    }),
  ]);
});
