import canonicalize from "canonicalize";

import { sha256Hex } from "../../idempotency/sha256.ts";
import { type ApiContext, send, sendText } from "./answer.ts";
import type { Plan } from "./endpoint.ts";
import * as errors from "./errors.ts";
import { type Keys, MAX_KEY_CHARS } from "./idempotency.ts";
import type { Fault } from "./steering.ts";

type ReadyPlan = Extract<Plan, { kind: "ready" }>;

export interface Parts {
  storage: DurableObjectStorage;
  keys: Keys;
  /** Called when events may have been written. */
  scheduleDelivery: () => void;
}

/** Answers a POST: at most once under its key, and with what its payment method makes go wrong. */
export async function answerPost(parts: Parts, c: ApiContext, plan: Plan): Promise<Response> {
  if (plan.kind === "refused") return send(c, plan.reply);
  const { idempotencyKey: key, now } = c.var.scope;
  if (key === null) return execute(parts, c, plan, null);
  if (key.length > MAX_KEY_CHARS) return send(c, errors.KEY_TOO_LONG);

  const fingerprint = await fingerprintOf(c);
  const begun = parts.keys.begin(key, { fingerprint, now: now() });
  switch (begun.kind) {
    case "replay": {
      const { status, body, request_id } = begun.result;
      c.set("isReplayed", true);
      c.header("idempotent-replayed", "true");
      c.header("original-request", request_id);
      return sendText(c, status, body);
    }
    case "reused":
      return send(c, errors.KEY_REUSED);
    case "in_use":
      return send(c, errors.KEY_IN_USE);
    case "execute":
      try {
        return await execute(parts, c, plan, { key, fingerprint });
      } finally {
        parts.keys.end(key);
      }
  }
}

type Claim = { key: string; fingerprint: string } | null;

async function execute(parts: Parts, c: ApiContext, plan: ReadyPlan, claim: Claim) {
  const { requestId: request_id, now } = c.var.scope;
  if (isTurnedAway(parts.keys, plan.fault, claim)) return send(c, errors.UNAVAILABLE);
  if (plan.fault.kind === "slow") await waitFor(plan.fault.ms);

  // Effects, events and the stored result are one transaction: a retry finds all of them or none.
  const { status, body } = parts.storage.transactionSync(() => {
    const reply = plan.run();
    const result = { status: reply.status, body: JSON.stringify(reply.body) };
    if (claim !== null) {
      const { key, fingerprint } = claim;
      parts.keys.keep(key, { fingerprint, request_id, ...result, now: now() });
    }
    return result;
  });
  parts.scheduleDelivery();
  if (plan.fault.kind === "lost_reply") c.set("isReplyLost", true);
  return sendText(c, status, body);
}

/** A call without a key cannot be known again, so it is always a first one. */
function isTurnedAway(keys: Keys, fault: Fault, claim: Claim): boolean {
  if (fault.kind !== "unavailable_once") return false;
  return claim === null || keys.isFirstSight(claim.key);
}

/** Stripe compares the endpoint and the parameters, in whatever order they come. */
async function fingerprintOf(c: ApiContext): Promise<string> {
  return sha256Hex(canonicalize([c.req.method, c.req.path, c.var.params])!);
}

function waitFor(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
