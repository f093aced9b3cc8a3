import { DrizzleQueryError } from "drizzle-orm";
import { Hono } from "hono";
import { afterEach, expect, test, vi } from "vitest";

import { describeError, log } from "../../src/log.ts";
import { problemIndex, problemPage } from "../../src/problem-pages.ts";
import { problemBody, refuse, storedProblem } from "../../src/problem.ts";
import { type ProblemCode, PROBLEMS } from "../../src/problems.ts";

const requestId = "req_1";
const codes = Object.keys(PROBLEMS) as ProblemCode[];

test.each(codes)("%s has every member of a problem", (code) => {
  const body = problemBody(requestId, code);
  expect(body).toEqual({
    type: `/problems/${code}`,
    title: PROBLEMS[code].title,
    status: PROBLEMS[code].status,
    detail: `${PROBLEMS[code].title}.`,
    error: code,
    retryable: PROBLEMS[code].retryable,
    request_id: "req_1",
  });
  expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/);
  expect(URL.canParse(body.type, "https://shop.example")).toBe(true);
  expect(body.title).toMatch(/^[A-Z][^.]+[^.\s]$/);
  expect(body.retryable).toBeTypeOf("boolean");
  expect(Number.isInteger(body.status) && body.status >= 400 && body.status <= 599).toBe(true);
  expect(PROBLEMS[code].advice).toMatch(/^[A-Z`].+\.$/s);
});

test("no member of an occurrence can take the place of what the contract promises", () => {
  const occurrence = {
    type: "x",
    title: "x",
    error: "x",
    retryable: true,
    request_id: "x",
    left: 1,
  };
  expect(problemBody(requestId, "insufficient_stock", occurrence)).toEqual({
    ...problemBody(requestId, "insufficient_stock"),
    left: 1,
  });
});

test("no two problems have one title", () => {
  expect(new Set(codes.map((code) => PROBLEMS[code].title)).size).toBe(codes.length);
});

test("the ledger's problems have the statuses that the contract gives them", () => {
  const ledger = codes.filter((code) => /idempot|outcome/.test(code));
  expect(Object.fromEntries(ledger.map((code) => [code, PROBLEMS[code].status]))).toEqual({
    idempotency_key_required: 400,
    idempotency_key_invalid: 400,
    idempotency_key_in_progress: 409,
    idempotency_key_retry: 409,
    idempotency_key_reused: 422,
    idempotent_response_too_large: 500,
    outcome_unknown: 503,
  });
});

test("what may be sent again unchanged says so; what must be mended first does not", () => {
  const retryable = codes.filter((code) => PROBLEMS[code].retryable);
  expect(retryable).toEqual(
    expect.arrayContaining([
      "idempotency_key_in_progress",
      "idempotency_key_retry",
      "internal_error",
      "outcome_unknown",
      "service_unavailable",
      "rate_limited",
    ]),
  );
  expect(retryable).not.toContain("idempotent_response_too_large");
  const mended = new Set([400, 401, 402, 404, 405, 413, 415, 422]);
  expect(retryable.filter((code) => mended.has(PROBLEMS[code].status))).toEqual([]);
});

test("an occurrence adds its detail and its own members", () => {
  const body = problemBody(requestId, "insufficient_stock", {
    detail: "One mug is left.",
    products: [{ product_id: "prod_1", available: 1 }],
  });
  expect(body).toMatchObject({
    status: 409,
    detail: "One mug is left.",
    error: "insufficient_stock",
    products: [{ product_id: "prod_1", available: 1 }],
  });
});

test("for APIs that promised 409, a reused key's status can be replaced, its code cannot be lost", () => {
  expect(problemBody(requestId, "idempotency_key_reused", { status: 409 })).toMatchObject({
    status: 409,
    error: "idempotency_key_reused",
  });
});

test("a refusal writes nothing and stores the problem as it is answered", () => {
  const occurrence = { detail: "SKU MUG-01 exists." };
  const stored = storedProblem(requestId, "sku_taken", occurrence);
  expect(stored).toEqual({
    status: 409,
    headers: { "content-type": "application/problem+json" },
    body: JSON.stringify(problemBody(requestId, "sku_taken", occurrence)),
  });
  expect(refuse(requestId, "sku_taken", occurrence)).toEqual({
    kind: "decided",
    response: stored,
    writes: [],
  });
});

const pages = new Hono()
  .get("/problems", (c) => c.html(problemIndex()))
  .get("/problems/:code", (c) => problemPage(c, c.req.param("code")) ?? c.notFound());

const escaped = (text: string) =>
  text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&#39;");

test.each(codes)("the page of %s says what happened and what to do", async (code) => {
  const answer = await pages.request(problemBody(requestId, code).type);
  const page = await answer.text();
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toBe("text/html; charset=UTF-8");
  expect(page).toContain(`<h1>${escaped(PROBLEMS[code].title)}</h1>`);
  expect(page).toContain(`<code>${code}</code>, HTTP ${PROBLEMS[code].status}`);
  expect(page).toContain(
    PROBLEMS[code].retryable ? "under the same key can help" : "does not help",
  );
  const advice = escaped(PROBLEMS[code].advice).replaceAll(/`([^`]*)`/g, "<code>$1</code>");
  expect(page).toContain(`<p>${advice}</p>`);
});

test("what reads like markup in an advice is text on its page", async () => {
  const page = await (await pages.request("/problems/unauthorized")).text();
  expect(page).toContain("Authorization: Bearer &lt;key&gt;.");
  expect(page).not.toContain("<key>");
});

test.each(["unheard_of", "constructor", "__proto__", "toString", "<script>alert(1)</script>"])(
  "there is no page for %s",
  async (code) => {
    const answer = await pages.request(`/problems/${encodeURIComponent(code)}`);
    expect(answer.status).toBe(404);
    expect(await answer.text()).not.toContain("<script>");
  },
);

test("the index lists every problem with a link to its page", async () => {
  const index = await (await pages.request("/problems")).text();
  const links = Array.from(index.matchAll(/href="\/problems\/([a-z_]+)"/g), (link) => link[1]);
  expect(links).toEqual(codes);
});

const SECRET = "4242424242424242";
const d1Error = new Error("D1_ERROR: UNIQUE constraint failed: orders.id: SQLITE_CONSTRAINT");
const queryError = new DrizzleQueryError("insert into orders values (?)", [SECRET], d1Error);

test("a failed query's bound values are not in its description, its cause is", () => {
  expect(queryError.message).toContain(SECRET);
  expect(queryError.stack).toContain(SECRET);
  const described = describeError(queryError);
  expect(described).toEqual({ message: d1Error.message, stack: d1Error.stack });
  expect(JSON.stringify(described)).not.toContain(SECRET);
});

test("bound values stay out however deep the failed query lies, and with no cause of its own", () => {
  const wrapped = new Error("bug: a claim failed", {
    cause: new Error("the batch failed", { cause: queryError }),
  });
  expect(describeError(wrapped)).toMatchObject({
    message: "bug: a claim failed",
    cause: { message: "the batch failed", cause: { message: d1Error.message } },
  });
  expect(JSON.stringify(describeError(wrapped))).not.toContain(SECRET);

  const causeless = new DrizzleQueryError("insert into orders values (?)", [SECRET]);
  expect(JSON.stringify(describeError(causeless))).not.toContain(SECRET);
  const twice = new DrizzleQueryError("select ?", [SECRET], queryError);
  expect(describeError(twice)).toMatchObject({ message: d1Error.message });
  expect(JSON.stringify(describeError(twice))).not.toContain(SECRET);
});

test("an error's causes are described, and what is thrown need not be an error", () => {
  const error = new Error("outer", { cause: new TypeError("inner", { cause: "a string" }) });
  expect(describeError(error)).toEqual({
    message: "outer",
    stack: error.stack,
    cause: {
      message: "inner",
      stack: (error.cause as Error).stack,
      cause: { message: "a string" },
    },
  });
  expect(describeError(new Error("alone"))).not.toHaveProperty("cause");
  expect(describeError(undefined)).toEqual({ message: "undefined" });
});

afterEach(() => vi.restoreAllMocks());

test.each(["info", "error"] as const)("a log entry of level %s is one line of JSON", (level) => {
  const written = vi.spyOn(console, level).mockReturnValue();
  log(level, { event: "sweep", note: "two\nlines\r\n", error: describeError(queryError) });
  const line = String(written.mock.calls[0]![0]);
  expect(written.mock.calls).toEqual([[line]]);
  expect(line).not.toMatch(/[\n\r]/);
  expect(JSON.parse(line)).toEqual({
    level,
    at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    event: "sweep",
    note: "two\nlines\r\n",
    error: { message: d1Error.message, stack: d1Error.stack },
  });
});
