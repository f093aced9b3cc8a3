import { setTimeout as sleep } from "node:timers/promises";

/** The accounts of seeds/demo.sql: `id` is the principal, `product` one of its catalogue with plenty in stock. */
export const ACME = {
  id: "acct_0192f3a0-0000-7000-8000-00000000000a",
  apiKey: "demo_acme_b3f1c2d4e5a60718",
  product: "prod_0192f3a0-0000-7000-8000-000000000001",
};
export const GLOBEX = {
  id: "acct_0192f3a0-0000-7000-8000-00000000000b",
  apiKey: "demo_globex_7a90c1e2f3b4d586",
  product: "prod_0192f3a0-0000-7000-8000-000000000004",
};
export type Account = typeof ACME;

/** Whoever holds ADMIN_TOKEN. */
export const OPERATOR = { apiKey: "demo-operator-token" };

/** A lease short enough to be waited for. The provider's limit has to stay below it. */
export const DEMO_SETTINGS = {
  PENDING_TTL_MS: "2000",
  PROVIDER_TIMEOUT_MS: "1000",
  ADMIN_TOKEN: OPERATOR.apiKey,
};

/** How often a sender tries before it gives up; a few times are enough even where 200 press on one key. */
const MAX_TRIES = 50;

export interface Answer {
  status: number;
  isReplay: boolean;
  /** Status, the headers that are stored with it, and the body: all that a replay must give back. */
  bytes: string;
  /** The body parsed; empty when it is not a JSON object. */
  json: Record<string, unknown>;
}

export interface KeyedRequest {
  account: Account;
  path: string;
  /** The idempotency key. */
  key: string;
  body: string;
}

/** The body of an order of one unit, with a name by which it can be found again. */
export function oneOf({ product }: Account, reference: string): string {
  return JSON.stringify({ items: [{ product_id: product, quantity: 1 }], reference });
}

/** Talks to the service as any client would, and remembers which keys it has sent orders under. */
export function openShop(url: string) {
  const keysSent = new Set<string>();

  async function post(request: KeyedRequest): Promise<Answer> {
    const { account, path, key } = request;
    if (path === "/orders") keysSent.add(`${account.id} ${key}`);
    return postTo(url, request);
  }

  /** Sends the same request under the same key until the answer is final, as every client of this API should. */
  async function postUntilFinal(request: KeyedRequest): Promise<{ first: Answer; last: Answer }> {
    const first = await post(request);
    let last = first;
    for (let tries = 1; tries < MAX_TRIES && last.json["retryable"] === true; tries++) {
      await sleep(Number(last.json["retry_after_ms"] ?? 1000));
      last = await post(request);
    }
    return { first, last };
  }

  async function get({ apiKey }: { apiKey: string }, path: string): Promise<Answer> {
    const headers = { authorization: `Bearer ${apiKey}` };
    return answerOf(await fetch(`${url}${path}`, { headers }));
  }

  async function ordersWith(account: Account, reference: string): Promise<number> {
    const { json } = await get(account, "/orders?limit=100");
    const orders = json["data"] as { reference: string | null }[];
    return orders.filter((order) => order.reference === reference).length;
  }

  async function stockOf(account: Account): Promise<number> {
    return Number((await get(account, `/products/${account.product}`)).json["stock"]);
  }

  /** Charges that the provider has made for a payment, by the provider's own books. */
  async function chargesOf(paymentId: string): Promise<number> {
    const { json } = await get(OPERATOR, "/admin/sandbox/charges?limit=1000");
    const charges = json["data"] as { paymentId: string; status: string }[];
    return charges.filter((c) => c.paymentId === paymentId && c.status === "succeeded").length;
  }

  const audit = () => get(OPERATOR, "/admin/audit");

  return { keysSent, post, postUntilFinal, get, ordersWith, stockOf, chargesOf, audit };
}

export type Shop = ReturnType<typeof openShop>;

export async function postTo(
  url: string,
  { account, path, key, body }: KeyedRequest,
  { signal = null }: { signal?: AbortSignal | null } = {},
): Promise<Answer> {
  const headers = {
    authorization: `Bearer ${account.apiKey}`,
    "idempotency-key": key,
    "content-type": "application/json",
  };
  return answerOf(await fetch(`${url}${path}`, { method: "POST", headers, body, signal }));
}

async function answerOf(response: Response): Promise<Answer> {
  const body = await response.text();
  const { status, headers } = response;
  const stored = [status, headers.get("content-type"), headers.get("location")].join("\n");
  return {
    status,
    isReplay: headers.get("idempotent-replayed") === "true",
    bytes: `${stored}\n${body}`,
    json: body.startsWith("{") ? (JSON.parse(body) as Record<string, unknown>) : {},
  };
}
