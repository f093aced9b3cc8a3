// The owner of a claim who stalls, for scripts/demo.ts: a process of its own on the same database, which uses the
// service's own code. It claims a key, for a payment also writes the intent down, and then stands still; woken up, it
// tries to commit as if it still could. Arguments: the database's directory, then the path, the idempotency key and the
// body of the POST that it handles.
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { drizzle } from "drizzle-orm/d1";
import { Stripe } from "stripe";
import { uuidv7 } from "uuidv7";
import { getPlatformProxy } from "wrangler";

import { configOf } from "../src/env.ts";
import { fingerprintRequest } from "../src/idempotency/fingerprint.ts";
import * as ledger from "../src/idempotency/ledger.ts";
import type { Write } from "../src/idempotency/ledger.ts";
import { createOrder } from "../src/orders/create-order.ts";
import { payOrder } from "../src/payments/pay-order.ts";
import { ACME, DEMO_SETTINGS } from "./demo-shop.ts";
import { ROOT } from "./local-service.ts";

/** What it tells its parent. `created` is the id of what its commit would have made or settled. */
export type OwnerMessage =
  | { kind: "stalled" }
  | { kind: "tried_to_commit"; outcome: string; created: string };

// The service writes for a few milliseconds now and then, at most.
const MAX_SENDS = 5;
const RESEND_PAUSE_MS = 50;

const [persistTo, path, key, body] = process.argv.slice(2) as [string, string, string, string];
const { env } = await getPlatformProxy<Env>({
  configPath: join(ROOT, "wrangler.toml"),
  // `wrangler dev --persist-to` adds the version of the layout by itself.
  persist: { path: join(persistTo, "v3") },
  remoteBindings: false,
});
const db = drizzle(env.DB);
const settings = configOf({ ...env, ...DEMO_SETTINGS });
const input = { db, principal: ACME.id, key };

if (path === "/orders") await stallAnOrder();
else await stallAPayment();

/** Stalls between its decision and its commit. */
async function stallAnOrder(): Promise<void> {
  const request = { ...input, body: JSON.parse(body), params: {} };
  const { reservation, reads } = await claimKey(createOrder.reads(request));
  const decision = await createOrder.run({
    ...request,
    reads,
    // An id of its own, so that it is the fence that stops it and not the primary key of the other order.
    operation: { id: uuidv7(), generation: reservation.generation },
    now: Date.now(),
    requestId: "stalled",
    checkpoint: () => Promise.reject(new Error("bug: an order has no checkpoint")),
  });
  await stall();
  await tryToCommit(reservation, decision);
}

/** Stalls in the provider call, and then holds a success in its hands. */
async function stallAPayment(): Promise<void> {
  const order = path.split("/")[2]!;
  const request = { ...input, body: JSON.parse(body), params: { id: order } };
  // The provider is a stub here: what it would have been asked, the taker-over asks of the real sandbox.
  const answer = async (_url: unknown, init?: RequestInit) => {
    await stall();
    const asked = new URLSearchParams(init!.body as string);
    return Response.json({
      id: "pi_stalled",
      object: "payment_intent",
      status: "succeeded",
      amount: Number(asked.get("amount")),
      currency: asked.get("currency"),
      metadata: { payment_id: asked.get("metadata[payment_id]") },
    });
  };
  const stripe = new Stripe("sk_test_stalled", {
    httpClient: Stripe.createFetchHttpClient(answer),
  });
  // It has no timeout: that is its fault, and what the lease is for.
  const mutation = payOrder({ stripe, timeoutMs: 60_000 });
  const { reservation, reads } = await claimKey(mutation.reads(request));
  const decision = await mutation.run({
    ...request,
    reads,
    operation: { id: reservation.operationId, generation: reservation.generation },
    now: Date.now(),
    requestId: "stalled",
    checkpoint: async (writes) => {
      const sent = await untilDefinite(() =>
        ledger.checkpoint(db, reservation, { writes, now: Date.now() }),
      );
      return sent.kind === "committed" ? { kind: "held" } : { kind: "interrupted", by: sent };
    },
  });
  await tryToCommit(reservation, decision);
}

async function claimKey<const Reads extends readonly ledger.Read[]>(reads: Reads) {
  const fingerprint = await fingerprintRequest({
    method: "POST",
    pathAndQuery: path,
    headers: new Headers({ "content-type": "application/json" }),
    body: new TextEncoder().encode(body),
    mode: settings.fingerprintMode,
  });
  const { principal } = input;
  const ids = { operationId: uuidv7(), owner: uuidv7() };
  const request = { principal, key, fingerprint, method: "POST", path, ...ids, ...settings };
  const claimed = await untilDefinite(() =>
    ledger.claim(db, { ...request, now: Date.now() }, reads),
  );
  if (claimed.kind !== "won") throw new Error(`The claim was not won but ${claimed.kind}.`);
  return claimed;
}

type Decision = Awaited<ReturnType<typeof createOrder.run>>;

async function tryToCommit(
  reservation: Parameters<typeof ledger.commit>[1],
  decision: Decision,
): Promise<void> {
  if (decision.kind !== "decided") throw new Error(`It was not decided but ${decision.kind}.`);
  const { response } = decision;
  const writes: readonly Write[] = decision.writes;
  const outcome = await untilDefinite(() =>
    ledger.commit(db, reservation, { response, writes, now: Date.now() }),
  );
  const { id } = JSON.parse(response.body!) as { id: string };
  tell({ kind: "tried_to_commit", outcome: outcome.kind, created: id });
}

/** Says that it stands still, until its parent wakes it up. */
async function stall(): Promise<void> {
  const woken = once(process, "message");
  tell({ kind: "stalled" });
  await woken;
}

/** Two processes that write to one SQLite file at once: one of them is told to come again, and nothing has happened. */
async function untilDefinite<Sent extends { kind: string }>(send: () => Promise<Sent>) {
  let sent = await send();
  for (let sends = 1; sends < MAX_SENDS && sent.kind === "ambiguous"; sends++) {
    await sleep(RESEND_PAUSE_MS);
    sent = await send();
  }
  return sent;
}

function tell(message: OwnerMessage): void {
  process.send!(message);
}
