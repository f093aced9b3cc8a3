import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { uuidv7 } from "uuidv7";
import { expect } from "vitest";

import { createApp } from "../../src/app.ts";
import { configOf } from "../../src/env.ts";
import { idempotency } from "../../src/idempotency/handler.ts";
import type { Ports } from "../../src/idempotency/attempt.ts";
import { sha256Hex } from "../../src/idempotency/sha256.ts";
import { ledgerService } from "../../src/ledger-service.ts";
import type { AppEnv } from "../../src/scope.ts";
import { departures } from "./contract.ts";

export type Json = Record<string, unknown>;

export interface Answer {
  status: number;
  headers: Headers;
  /** Exactly as received. */
  body: string;
  json: Json;
}

/** A clock that stands still until it is told to move, and waits that end at once by moving it. */
export class TestClock {
  #now = Date.now();
  now = () => this.#now;
  advance(ms: number): void {
    this.#now += ms;
  }
  sleep = async (ms: number) => this.advance(ms);
}

export const realPorts: Ports = {
  now: Date.now,
  newId: uuidv7,
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

/** Settings that stand in no file. */
interface Secrets {
  ADMIN_TOKEN?: string;
  STRIPE_SECRET_KEY?: string;
  STRIPE_API_BASE?: string;
  STRIPE_WEBHOOK_SECRETS?: string;
}

interface Setup {
  /** Another door to the same shop: another isolate, or a database that fails. */
  account?: Account;
  bindings?: Partial<Env> & Secrets;
  ports?: Partial<Ports>;
  /** Adds routes of the test's own, through the same ledger. */
  mount?: (app: ReturnType<typeof createApp>, idempotent: Idempotent) => void;
}

type Idempotent = ReturnType<typeof idempotency<AppEnv>>;
export type Shop = Awaited<ReturnType<typeof openShop>>;
export type Account = Awaited<ReturnType<typeof createAccount>>;

/** The real app on the real D1, unless a binding is replaced, seen by a fresh account, unless one is given. */
export async function openShop(setup: Setup = {}) {
  const ports = { ...realPorts, ...setup.ports };
  const bindings: Env = { ...env, ...setup.bindings };
  const app = createApp(ports, configOf(bindings));
  setup.mount?.(app, idempotency(ledgerService(ports)));
  const account = setup.account ?? (await createAccount());
  const headers = { authorization: `Bearer ${account.apiKey}` };

  const send = async (request: Request): Promise<Answer> => {
    const context = createExecutionContext();
    const response = await app.fetch(request, bindings, context);
    const body = await response.text();
    await waitOnExecutionContext(context);
    const json: Json = body.startsWith("{") ? JSON.parse(body) : {};
    const answer = { status: response.status, headers: response.headers, body, json };
    expect(departures(app, request, answer), "not as the OpenAPI document says").toEqual([]);
    return answer;
  };
  const get = (path: string) => send(new Request(`http://shop.test${path}`, { headers }));
  const post = (path: string, body: unknown, key: string | null, more?: HeadersInit) =>
    send(postRequest(account, path, body, key, more));

  // The isolate now knows the account, so that no test counts the look-up.
  await get("/products?limit=1");
  return { app, account, bindings, send, get, post };
}

/** `key: null` sends none; bytes and strings go out as they are, anything else as JSON. */
export function postRequest(
  account: Account,
  path: string,
  body: unknown,
  key: string | null,
  more?: HeadersInit,
): Request {
  const headers = new Headers({
    authorization: `Bearer ${account.apiKey}`,
    "content-type": "application/json",
  });
  if (key !== null) headers.set("idempotency-key", key);
  new Headers(more).forEach((value, name) => headers.set(name, value));
  const isRaw =
    typeof body === "string" || body instanceof Uint8Array || body instanceof ReadableStream;
  const payload = body === undefined ? null : isRaw ? body : JSON.stringify(body);
  return new Request(`http://shop.test${path}`, { method: "POST", headers, body: payload });
}

export async function createAccount() {
  const id = `acct_${uuidv7()}`;
  const apiKey = `test_${crypto.randomUUID()}`;
  await sql`INSERT INTO accounts VALUES (${id}, 'Test', ${await sha256Hex(apiKey)}, 0)`.run();
  return { id, apiKey };
}

/** A product put on the shelf beside the API, so that a test's ledger holds only what the test sent. */
export async function shelve(
  accountId: string,
  { units = 100, price = 1000, currency = "EUR" } = {},
): Promise<string> {
  const id = `prod_${uuidv7()}`;
  const product = sql`INSERT INTO products VALUES (${id}, ${accountId}, ${id}, 'Thing', ${price}, ${currency}, ${units}, 0)`;
  const adjustment = sql`INSERT INTO stock_adjustments VALUES (${id.replace("prod", "adj")}, ${id}, ${units}, 'initial stock', 0)`;
  await env.DB.batch([product, adjustment]);
  return id;
}

/** A statement from a template: each value becomes a bound parameter. */
export function sql(strings: TemplateStringsArray, ...values: unknown[]): D1PreparedStatement {
  return env.DB.prepare(strings.join("?")).bind(...values);
}

export async function stockOf(productId: string): Promise<number> {
  return (await sql`SELECT stock FROM products WHERE id = ${productId}`.first<number>("stock"))!;
}

export async function ordersOf(accountId: string): Promise<Json[]> {
  return (await sql`SELECT * FROM orders WHERE account_id = ${accountId}`.all<Json>()).results;
}

export interface LedgerRow {
  operation_id: string;
  fingerprint: string;
  status: string;
  generation: number;
  owner: string;
  response_status: number | null;
  response_body: string | null;
  created_at: number;
  updated_at: number;
  expires_at: number;
}

export async function ledgerRow(principal: string, key: string): Promise<LedgerRow | null> {
  return sql`SELECT * FROM idempotency_keys WHERE principal = ${principal} AND key = ${key}`.first();
}

export async function ledgerSize(principal: string): Promise<number> {
  const size = sql`SELECT count(*) AS n FROM idempotency_keys WHERE principal = ${principal}`;
  return (await size.first<number>("n"))!;
}
