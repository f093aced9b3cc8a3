import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { uuidv7 } from "uuidv7";

import { createApp } from "../../src/app.ts";
import { configOf } from "../../src/env.ts";
import { sweepUntilCaughtUp } from "../../src/idempotency/sweep.ts";
import { audit } from "../../src/operator/audit.ts";
import { providerOf } from "../../src/payments/provider.ts";
import { reconcile } from "../../src/payments/reconcile.ts";
import { answerLost, callLost, type Fault, gate, overloaded, passes } from "./faulty-d1.ts";
import type { ModelRequest } from "./model-ledger.ts";
import { type Account, type Answer, createAccount, postRequest, sql, TestClock } from "./shop.ts";

/**
 * What happens to one message of a request, counted from 0: its claim, its checkpoint, its call of the provider, its
 * commit. `twice`: its answer is lost once, and it is sent again. `unheard`: it arrives, and no answer ever does.
 */
export interface Trouble {
  at: number;
  kind: "none" | "twice" | "lost" | "unheard" | "shed" | "stalls";
  /** Whether the claim, if nothing else is wrong with it, takes CLAIM_MS. */
  isSlow: boolean;
}

/** Well within a lease. */
export const CLAIM_MS = 9_000;

const TABLES = [
  "refunds",
  "payments",
  "order_items",
  "orders",
  "stock_adjustments",
  "products",
  "idempotency_keys",
];

/** The real app on the real D1 and a provider of its own, all empty, seen by two accounts. */
export async function openService() {
  await env.DB.batch(TABLES.map((table) => env.DB.prepare(`DELETE FROM ${table}`)));
  const accounts: Record<string, Account> = {
    acme: await createAccount(),
    globex: await createAccount(),
  };
  const nameOf = (id: string) => Object.keys(accounts).find((name) => accounts[name]!.id === id)!;
  const clock = new TestClock();
  // Time moves by command only, so waiting takes none.
  const ports = { now: clock.now, newId: uuidv7, sleep: async () => undefined };
  const config = configOf(env);
  const app = createApp(ports);
  const sandbox = env.SANDBOX.getByName(crypto.randomUUID());
  const providerThrough = (through: Fault) =>
    ({
      getByName: () => ({
        fetch: (url: string, init?: RequestInit) => through(() => sandbox.fetch(url, init)),
      }),
    }) as unknown as Env["SANDBOX"];

  const send = async (request: Request, bindings: Env): Promise<Answer> => {
    const context = createExecutionContext();
    const response = await app.fetch(request, bindings, context);
    const body = await response.text();
    await waitOnExecutionContext(context);
    return { status: response.status, headers: response.headers, body, json: JSON.parse(body) };
  };

  const underWay: { answer: Promise<Answer>; goOn: () => void }[] = [];
  return {
    clock,
    /** `stalled` resolves if it comes to that; `goOn` lets it go on. */
    post({ account, key, path, body }: ModelRequest, trouble: Trouble) {
      const { fault: stalls, reached, open } = gate();
      const slow: Fault = async (carryOut) => {
        const result = await carryOut();
        clock.advance(CLAIM_MS);
        return result;
      };
      const script = [...Array<Fault>(trouble.at).fill(passes), ...faultsOf(trouble.kind, stalls)];
      if (trouble.isSlow && (trouble.at > 0 || trouble.kind === "none")) script[0] = slow;
      const through: Fault = async (carryOut) => (script.shift() ?? passes)(carryOut);
      // What authentication and a release send are no batches, and always arrive. So does the sweep's batch.
      let isSweep = false;
      const DB = {
        prepare: (query: string) => {
          isSweep = query.startsWith('delete from "idempotency_keys"');
          return env.DB.prepare(query);
        },
        batch: (statements: D1PreparedStatement[]) =>
          (isSweep ? passes : through)(() => env.DB.batch(statements)),
      } as D1Database;
      const request = postRequest(accounts[account]!, path, body, key);
      const answer = send(request, { ...env, DB, SANDBOX: providerThrough(through) });
      underWay.push({ answer, goOn: open });
      return { answer, stalled: reached.then(() => "stalled" as const), goOn: open };
    },

    /** Leaves nothing under way behind: what follows begins with an empty database. */
    async close(): Promise<void> {
      for (const { goOn } of underWay) goOn();
      await Promise.allSettled(underWay.map(({ answer }) => answer));
    },

    async sweep(): Promise<number> {
      const { evicted } = await sweepUntilCaughtUp(drizzle(env.DB), { ...ports, ...config });
      return evicted;
    },

    reconcile: () =>
      reconcile({
        db: drizzle(env.DB),
        ports,
        settings: config,
        provider: providerOf({ env: { SANDBOX: providerThrough(passes) }, var: { config } }),
      }),

    async brokenGuarantees() {
      const { checks } = await audit(drizzle(env.DB), sandbox);
      return checks.filter(({ violations }) => violations > 0);
    },

    /** Every row that matters, by its id. */
    async rows() {
      const [keys, ...others] = await env.DB.batch<Record<string, string | number>>([
        sql`SELECT principal, key, operation_id AS operation, status, generation, expires_at FROM idempotency_keys`,
        sql`SELECT id, stock FROM products`,
        sql`SELECT id, status FROM orders`,
        sql`SELECT id, status, refunded_amount FROM payments`,
        sql`SELECT id, status, amount FROM refunds`,
      ]);
      return {
        keys: Object.fromEntries(
          keys!.results.map(({ principal, key, ...row }) => [
            `${nameOf(String(principal))} ${key}`,
            row,
          ]),
        ),
        things: Object.fromEntries(
          others.flatMap(({ results }) => results.map(({ id, ...row }) => [id, row])),
        ),
      };
    },
  };
}

export type Service = Awaited<ReturnType<typeof openService>>;

function faultsOf(kind: Trouble["kind"], stalls: Fault) {
  switch (kind) {
    case "none":
      return [];
    case "twice":
      return [answerLost];
    case "lost":
      return [callLost, callLost, callLost];
    case "unheard":
      return [answerLost, callLost, callLost];
    case "shed":
      return [overloaded];
    case "stalls":
      return [stalls];
  }
}
