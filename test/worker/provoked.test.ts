import { expect, test } from "vitest";

import type { ProblemCode } from "../../src/problems.ts";
import { documentOf, type Operation } from "./contract.ts";
import { callLost, type Fault, faultyD1, gate, overloaded, passes } from "./faulty-d1.ts";
import { deliver, SECRETS } from "./payments.ts";
import { type Answer, type Json, openShop, postRequest } from "./shop.ts";

// Goal: what the document says that a route may answer, it does answer, and a route that nobody has thought of is tried, too.
// Method: every operation of the document is provoked into each code that is not a decision of its own mutation.
// (That nothing else is answered, `openShop` checks: it compares each answer of each test with the document.)

interface Tried {
  operation: Operation;
  path: string;
  method: string;
  scheme: string | undefined;
  /** The example of its request. */
  body: Json | undefined;
}

interface How {
  key?: string | null;
  query?: string;
  body?: unknown;
  headers?: Record<string, string>;
}

type Ask = (how?: How) => Promise<Answer>;

/** The reference itself: a static asset, which never comes to the Worker. */
const STATIC = "/docs";
const ADMIN_TOKEN = "operator-token-of-the-test";
const broken: Fault = () => {
  throw new Error("D1_ERROR: no such table: anything");
};

/** The service, whose database and sandbox meet `state.fault`, and a way to ask its routes with what they need. */
async function openProvoked(more: Record<string, unknown> = {}) {
  const state: { fault: Fault } = { fault: passes };
  const d1 = faultyD1({ always: (send) => state.fault(send) });
  const charges = () => state.fault(async () => []);
  const SANDBOX = { getByName: () => ({ charges, calls: charges }) };
  const shop = await openShop({
    bindings: { ...SECRETS, ADMIN_TOKEN, DB: d1.DB, SANDBOX, ...more } as unknown as Env,
    ports: { sleep: async () => undefined },
  });
  const ask = (tried: Tried, how: How): Promise<Answer> => {
    const { path, method, scheme } = tried;
    const { query = "", key = "k", headers = {}, body = tried.body } = how;
    const address = path.replaceAll(/\{\w+\}/g, "ord_none") + query;
    if (scheme === "webhook" && body === tried.body && !("stripe-signature" in headers)) {
      const event = { id: `evt_${key}`, type: `none${query}` };
      return deliver(shop, event, { contentType: headers["content-type"] });
    }
    if (method === "post") {
      return shop.send(postRequest(shop.account, address, body, key && path + key, headers));
    }
    const authorization = `Bearer ${scheme === "operator" ? ADMIN_TOKEN : shop.account.apiKey}`;
    const request = { headers: { authorization, ...headers } };
    return shop.send(new Request(`http://shop.test${address}`, request));
  };
  return { shop, state, d1, ask };
}

type Provoked = Awaited<ReturnType<typeof openProvoked>>;

function operationsOf({ shop }: Pick<Provoked, "shop">): Tried[] {
  const { paths, components } = documentOf(shop.app);
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const schema = operation.requestBody?.content["application/json"]?.schema;
      const body = (components.schemas[schema?.$ref?.split("/").at(-1) ?? ""] ?? schema)?.example;
      if (schema !== undefined && body === undefined) {
        throw new Error(`${operation.operationId} needs an example of its body, to be tried with`);
      }
      const [scheme] = operation.security.flatMap((one) => Object.keys(one));
      return { operation, path, method, scheme, body };
    }),
  );
}

async function during(state: Provoked["state"], fault: Fault, ask: Ask): Promise<Answer> {
  state.fault = fault;
  const answer = await ask();
  state.fault = passes;
  return answer;
}

const NOT_UTF8 = new Uint8Array([0x22, 0xff, 0x22]);

/** How a route is brought to answer what any route may. */
const PROVOCATIONS = {
  unauthorized: (ask) => ask({ headers: { authorization: "Bearer wrong" } }),
  not_found: (ask) => ask(),
  rate_limited: (ask) => ask(),
  invalid_request: (ask) => ask({ query: "?limit=0", body: NOT_UTF8 }),
  internal_error: (ask, { state }) => during(state, broken, ask),
  service_unavailable: (ask, { state }) => during(state, overloaded, ask),
  idempotency_key_required: (ask) => ask({ key: null }),
  idempotency_key_invalid: (ask) => ask({ headers: { "idempotency-key": "a,b" } }),
  body_too_large: (ask) => ask({ body: "x".repeat(2_000_000) }),
  unsupported_media_type: (ask) => ask({ headers: { "content-type": "text/plain" } }),
  webhook_signature_invalid: (ask) => ask({ headers: { "stripe-signature": "wrong" } }),
  idempotency_key_reused: async (ask) => {
    await ask({ key: "used" });
    return ask({ key: "used", query: "?another" });
  },
  idempotency_key_in_progress: async (ask, { d1 }) => {
    const { fault, reached, open } = gate();
    d1.next(passes, fault);
    const first = ask({ key: "slow" });
    // Or it is answered before it gets that far, which the comparison will show.
    await Promise.race([reached, first]);
    const second = await ask({ key: "slow" });
    open();
    await first;
    return second;
  },
  outcome_unknown: (ask, { d1, state }) => {
    d1.next(passes);
    return during(state, callLost, () => ask({ key: "lost" }));
  },
} satisfies { [Code in ProblemCode]?: (ask: Ask, service: Provoked) => Promise<Answer> };

const OF_READS = [
  "unauthorized",
  "not_found",
  "rate_limited",
  "invalid_request",
  "internal_error",
  "service_unavailable",
] as const;
// A mutation whose database is broken is not known to have failed.
const OF_MUTATIONS = (Object.keys(PROVOCATIONS) as (keyof typeof PROVOCATIONS)[]).filter(
  (code) => code !== "internal_error",
);

/** What a keyed route may answer, too, and only a scene of its own brings about: other tests have them. */
const SCENES = new Set([
  "internal_error",
  "idempotent_response_too_large",
  "idempotency_key_retry",
]);

/** What each mutation decides. Its own tests show it. */
const DECISIONS: Record<string, string[]> = {
  postProducts: ["sku_taken"],
  postProductsByIdStockAdjustments: ["insufficient_stock"],
  postOrders: [
    "insufficient_stock",
    "unknown_product",
    "mixed_currencies",
    "order_total_too_large",
  ],
  postOrdersByIdCancel: ["order_not_cancellable"],
  postOrdersByIdPayments: ["card_declined", "order_not_payable", "payment_in_progress"],
  postPaymentsByIdRefunds: ["payment_not_refundable", "refund_exceeds_payment"],
};

test("every route gives the answers that any such route may give, as its document says", async () => {
  const service = await openProvoked();
  const limited = { limit: async () => ({ success: false }) };
  const limiting = await openProvoked({ RATE_LIMITER: limited });
  const closed = await openProvoked({ ADMIN_TOKEN: undefined });
  const serviceFor = (code: string, { scheme }: Tried) => {
    if (code === "rate_limited") return limiting;
    return code === "not_found" && scheme === "operator" ? closed : service;
  };

  for (const tried of operationsOf(service).filter(({ path }) => path !== STATIC)) {
    const {
      operation: { operationId },
      method,
    } = tried;
    const given = [];
    for (const code of method === "get" ? OF_READS : OF_MUTATIONS) {
      const provoked = serviceFor(code, tried);
      const answer = await PROVOCATIONS[code]((how = {}) => provoked.ask(tried, how), provoked);
      if (answer.json["error"] === code) given.push(code);
    }
    const elsewhere = new Set(DECISIONS[operationId]).union(method === "post" ? SCENES : new Set());
    const promised = codesOf(tried).filter((code) => !elsewhere.has(code));
    expect(given.toSorted(), operationId).toEqual(promised.toSorted());
  }
});

function codesOf({ operation: { responses } }: Tried): string[] {
  const examples = Object.values(responses).flatMap(({ content }) =>
    Object.values(content["application/problem+json"]?.examples ?? {}),
  );
  return [...new Set(examples.map(({ value }) => String(value["error"])))];
}

test("every route that is mounted is in the document", async () => {
  const { shop } = await openProvoked();
  const mounted = shop.app.routes
    .filter(({ method, path }) => method !== "ALL" && path !== "/*")
    .map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, "{$1}")}`);
  const documented = operationsOf({ shop }).map(
    ({ method, path }) => `${method.toUpperCase()} ${path}`,
  );

  expect(documented.toSorted()).toEqual([...new Set([...mounted, `GET ${STATIC}`])].toSorted());
});
