// The owner of a claim who dies, for scripts/demo.ts: a process of its own on the same database, which uses the
// service's own code. It claims a key and then does nothing; woken up, it tries to commit as if it still could.
// Arguments: the database's directory, the idempotency key and the body of the POST /orders that it handles.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { drizzle } from "drizzle-orm/d1";
import { uuidv7 } from "uuidv7";
import { getPlatformProxy } from "wrangler";

import { configOf } from "../src/env.ts";
import { fingerprintRequest } from "../src/idempotency/fingerprint.ts";
import { claim, commit } from "../src/idempotency/ledger.ts";
import { orders } from "../src/orders/schema.ts";
import { created } from "../src/wire.ts";
import { ACME, DEMO_SETTINGS } from "./demo-shop.ts";
import { ROOT } from "./local-service.ts";

/** What it tells its parent. `order` is the id under which its late order would be found. */
export type OwnerMessage =
  | { kind: "claimed" }
  | { kind: "tried_to_commit"; outcome: string; order: string };

// The service writes for a few milliseconds now and then, at most.
const MAX_SENDS = 5;
const RESEND_PAUSE_MS = 50;

const [persistTo, key, body] = process.argv.slice(2) as [string, string, string];
const { env } = await getPlatformProxy<Env>({
  configPath: join(ROOT, "wrangler.toml"),
  // `wrangler dev --persist-to` adds the version of the layout by itself.
  persist: { path: join(persistTo, "v3") },
  remoteBindings: false,
});
const db = drizzle(env.DB);
const settings = configOf({ ...env, ...DEMO_SETTINGS });

const reservation = await claimKey();
process.once("message", () => void tryToCommit());
tell({ kind: "claimed" });

async function claimKey() {
  const fingerprint = await fingerprintRequest({
    method: "POST",
    pathAndQuery: "/orders",
    headers: new Headers({ "content-type": "application/json" }),
    body: new TextEncoder().encode(body),
    mode: settings.fingerprintMode,
  });
  const request = {
    principal: ACME.id,
    key,
    fingerprint,
    method: "POST",
    path: "/orders",
    operationId: uuidv7(),
    owner: uuidv7(),
    now: Date.now(),
    ...settings,
  };
  const claimed = await untilDefinite(() => claim(db, request, []));
  if (claimed.kind !== "won") throw new Error(`The claim was not won but ${claimed.kind}.`);
  return claimed.reservation;
}

/** The order gets an id of its own, so that it is the fence that stops it and not the primary key of the other one. */
async function tryToCommit(): Promise<void> {
  const order = {
    id: `ord_${uuidv7()}`,
    accountId: ACME.id,
    status: "pending" as const,
    currency: "EUR",
    total: 1250,
    reference: (JSON.parse(body) as { reference: string }).reference,
    createdAt: Date.now(),
    updatedAt: Date.now(),
  };
  const outcome = await untilDefinite(() =>
    commit(db, reservation, {
      writes: [db.insert(orders).values(order)],
      response: created(`/orders/${order.id}`, order),
      now: Date.now(),
    }),
  );
  tell({ kind: "tried_to_commit", outcome: outcome.kind, order: order.id });
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
