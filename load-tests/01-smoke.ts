// Lesson 1: the contract.
//
// Goal: every route is asked once, keyed ones twice, and answers as GET /openapi.json promises. A route that is in the
// document and not in here fails the run. Run it first: what fails here fails in every other lesson, less plainly.
// By hand: `npm start`, and `k6 run load-tests/01-smoke.ts` in another terminal.
import { check } from "k6";
import type { Options } from "k6/options";

import { type Books, closeBooks, openBooks } from "./books.ts";
import { counted, UNBROKEN } from "./iteration.ts";
import { ADMIN_TOKEN } from "./settings.ts";
import { type KeyedRequest, orderOf, paymentOf, post, read, send, type Sent } from "./shop.ts";
import { summaryOf } from "./summary.ts";

export const options: Options = {
  scenarios: {
    smoke: { executor: "shared-iterations", vus: 1, iterations: 1, maxDuration: "2m" },
  },
  thresholds: {
    checks: ["rate==1"],
    ...UNBROKEN,
    iterations: ["count==1"],
    "answers{was:unexpected}": ["count==0"],
    books_read: ["value==1"],
    audit_violations: ["value==0"],
    // A product, its adjustment, an order that was cancelled, and its cancellation.
    ledger_unexplained: ["value==4"],
  },
};

export const handleSummary = summaryOf("01 Smoke");

/** As the document has them: `GET /orders/{id}`. */
const asked = new Set<string>();

export function setup(): Promise<Books> {
  return openBooks();
}

export default counted(async (books: Books) => {
  await visitPages();
  await visitShop(books);
  await visitRefusals(books);
  await visitOperator();

  const { paths } = (await read("/openapi.json")) as { paths: Record<string, object> };
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  check(routes, {
    "there are routes": ({ length }) => length > 20,
    "every route of the document was asked": () => routes.every((route) => asked.has(route)),
  });
});

export function teardown(books: Books): Promise<void> {
  return closeBooks(books);
}

async function visitPages(): Promise<void> {
  for (const page of ["/", "/healthz", "/openapi.json", "/problems"]) {
    answers(`GET ${page}`, await get(page));
  }
  answers("GET /problems/{code}", await get("/problems/not_found"));
  // A file, served before the Worker is asked.
  answers("GET /docs", await get("/docs/"));
}

/** A customer's whole story: a product, an order, its payment, a refund, and an order that is cancelled. */
async function visitShop({ run, products: [sold] }: Books): Promise<void> {
  const body = { sku: `${run}-own`, name: "Smoke", unit_price: 500, currency: "EUR", stock: 10 };
  const own = { path: "/products", key: `${run}-own`, body, kind: "product" };
  const product = await twice("POST /products", own);
  await twice("POST /products/{id}/stock-adjustments", {
    path: `/products/${product}/stock-adjustments`,
    key: `${run}-adjustment`,
    body: { delta: 5, reason: "smoke" },
    kind: "adjustment",
  });

  const name = `${run}-order`;
  const order = await twice("POST /orders", orderOf(sold!, name));
  const payment = await twice("POST /orders/{id}/payments", paymentOf(order, { name }));
  await twice("POST /payments/{id}/refunds", {
    path: `/payments/${payment}/refunds`,
    key: `${run}-refund`,
    body: { amount: 100, reason: "smoke" },
    kind: "refund",
  });

  const other = await twice("POST /orders", orderOf(sold!, `${run}-other`));
  await twice("POST /orders/{id}/cancel", {
    path: `/orders/${other}/cancel`,
    key: `${run}-cancel`,
    body: undefined,
    kind: "cancellation",
    outcome: 200,
  });

  answers("GET /products", await get("/products"), { says: '"has_more":' });
  answers("GET /products/{id}", await get(`/products/${product}`), { says: '"stock":15' });
  answers("GET /orders", await get("/orders?status=paid"), { says: '"has_more":' });
  const isRefunded = { says: '"status":"partially_refunded"' };
  answers("GET /orders/{id}", await get(`/orders/${order}`), isRefunded);
  answers("GET /orders/{id}/payments", await get(`/orders/${order}/payments`), { says: payment });
  answers("GET /payments/{id}", await get(`/payments/${payment}`), { says: payment });
  const key = await get(`/idempotency-keys/${name}`);
  answers("GET /idempotency-keys/{key}", key, { says: `"location":"/orders/${order}"` });
}

/** What a client did wrong is said as RFC 9457 has it, and uses up no key. */
async function visitRefusals({ run, products: [sold] }: Books): Promise<void> {
  const { path, body } = orderOf(sold!, `${run}-refused`);
  const key = `${run}-refused`;
  const refused = (text: string, headers: Record<string, string>, to = path) =>
    send("POST", to, { body: text, headers, tags: { kind: "refused" } });
  const order = JSON.stringify(body);

  const keyless = await refused(order, {});
  answers("no key", keyless, { status: 400, error: "idempotency_key_required" });
  const stranger = { "Idempotency-Key": key, Authorization: "Bearer nobody" };
  answers("no account", await refused(order, stranger), { status: 401, error: "unauthorized" });
  const broken = await refused("{", { "Idempotency-Key": key });
  answers("no JSON", broken, { status: 400, error: "invalid_request" });
  const unsigned = await refused("{}", {}, "/webhooks/stripe");
  answers("POST /webhooks/stripe", unsigned, { status: 400, error: "webhook_signature_invalid" });
  const unused = await get(`/idempotency-keys/${key}`);
  answers("the key is still free", unused, { status: 404, error: "not_found" });
}

async function visitOperator(): Promise<void> {
  const sandbox = ["/admin/sandbox/charges", "/admin/sandbox/calls"];
  for (const path of [
    "/admin/ledger",
    "/admin/audit",
    "/admin/unsettled",
    "/metrics",
    ...sandbox,
  ]) {
    answers(`GET ${path}`, await get(path, { Authorization: `Bearer ${ADMIN_TOKEN}` }));
  }
}

function get(path: string, headers: Record<string, string> = {}): Promise<Sent> {
  return send("GET", path, { headers, tags: { kind: "read" } });
}

/** Sends a keyed request and its retry, and returns the id of what was made. */
async function twice(route: string, request: KeyedRequest): Promise<string> {
  asked.add(route);
  const first = await post(request);
  const retry = await post(request);
  check(first, {
    [`${route}: executed`]: ({ was }) => was === "fresh",
    [`${route}: what was made says where it is`]: ({ status, headers }) =>
      status !== 201 || headers["Location"] !== undefined,
    [`${route}: the retry is a replay of the same bytes`]: ({ bytes }) =>
      retry.was === "replay" && retry.bytes === bytes,
  });
  return first.id;
}

function answers(
  what: string,
  { status, headers, text }: Sent,
  expected: { status?: number; says?: string; error?: string } = {},
): void {
  asked.add(what);
  const type = headers["Content-Type"] ?? "";
  const { error } = expected;
  check(text, {
    [`${what}: status`]: () => status === (expected.status ?? 200),
    [`${what}: content type`]: () =>
      error === undefined ? !type.includes("problem") : type === "application/problem+json",
    [`${what}: body`]: () =>
      text.includes(error === undefined ? (expected.says ?? "") : `"error":"${error}"`),
    [`${what}: named for its log line`]: () =>
      what === "GET /docs" || headers["X-Request-Id"] !== undefined,
  });
}
