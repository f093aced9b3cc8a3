import { and, asc, eq, gt, lt, or, sql } from "drizzle-orm";

import type { ExecuteSettings, Ports, Trace } from "../idempotency/attempt.ts";
import { sendBatch } from "../idempotency/batch.ts";
import { countFencedOut } from "../idempotency/figures.ts";
import { execute } from "../idempotency/idempotent.ts";
import { type Database, lookUp, type Read, type ReadResults } from "../idempotency/ledger.ts";
import type { Decision, Mutation, RouteShape } from "../idempotency/mutation.ts";
import { describeError, log } from "../log.ts";
import { storedProblem } from "../problem.ts";
import type { Provider } from "./charge.ts";
import { payOrder } from "./pay-order.ts";
import { refundPayment } from "./refund-payment.ts";
import { payments, type PaymentRow, refunds, type RefundRow } from "./schema.ts";

/** Payments and refunds of one run: each costs a few round trips and a provider call, and an invocation has limits. */
const BATCH_SIZE = 20;
/** A retry or a webhook mostly comes within one lease; after two nobody is coming. */
const PATIENCE_IN_TTLS = 2;

export interface ReconcileReport {
  settled: string[];
  /** What the provider could not say either. They are tried again on a later run. */
  unsettled: string[];
}

/** How an attempt to settle something ended, and what went wrong, if anything did. */
interface Ending {
  outcome: string;
  error?: unknown;
}

interface Reconciler {
  db: Database;
  ports: Ports;
  settings: ExecuteSettings;
  provider: Provider;
}

/**
 * Finishes what nobody retries: payments and refunds that have been processing for longer than two leases. Each is taken
 * over and run through the same ledger and the same mutation as its client's retry would be, so that its key is completed
 * too and a late retry replays.
 */
export async function reconcile(reconciler: Reconciler): Promise<ReconcileReport> {
  const { db, ports, settings, provider } = reconciler;
  const unattended = await selectUnattended(db, {
    now: ports.now(),
    patienceMs: PATIENCE_IN_TTLS * settings.pendingTtlMs,
    limit: BATCH_SIZE,
  });
  const report: ReconcileReport = { settled: [], unsettled: [] };
  // One that fails does not keep the others waiting.
  const note = async (money: PaymentRow | RefundRow, settle: () => Promise<Ending>) => {
    const ending = await settle()
      .then(async (end) => ((await isSettledNow(db, money.id)) ? undefined : end))
      .catch((error: unknown): Ending => ({ outcome: "failed", error }));
    report[ending === undefined ? "settled" : "unsettled"].push(money.id);
    if (ending === undefined) return;
    const { outcome, error } = ending;
    log("error", {
      event: "unsettled",
      id: money.id,
      outcome,
      ...(error !== undefined && { error: describeError(error) }),
    });
  };
  for (const money of unattended) {
    await note(money, () =>
      "orderId" in money
        ? finish(reconciler, money, payOrder(provider), {
            body: { payment_method: money.paymentMethod },
            params: { id: money.orderId },
          })
        : finish(reconciler, money, refundPayment(provider), {
            body: { amount: money.amount },
            params: { id: money.paymentId },
          }),
    );
  }
  return report;
}

/** Asked of the rows: that its key has an answer does not say that the money has one. */
async function isSettledNow(db: Database, id: string): Promise<boolean> {
  const [ofPayment, ofRefund] = await db.batch([
    db.select({ status: payments.status }).from(payments).where(eq(payments.id, id)),
    db.select({ status: refunds.status }).from(refunds).where(eq(refunds.id, id)),
  ]);
  return [...ofPayment, ...ofRefund].every(({ status }) => status !== "processing");
}

/**
 * What is processing and has not been asked for lately: first what a clock that was wrong has asked for, who knows when,
 * and then what was asked for longest ago. Payments and refunds together, so that neither keeps the other waiting.
 */
async function selectUnattended(
  db: Database,
  { now, patienceMs, limit }: { now: number; patienceMs: number; limit: number },
): Promise<(PaymentRow | RefundRow)[]> {
  const lastAsked = ({ updatedAt }: { updatedAt: number }) =>
    updatedAt > now + patienceMs ? 0 : updatedAt;
  const unattended = ({ status, updatedAt }: typeof payments | typeof refunds) =>
    and(
      eq(status, "processing"),
      or(lt(updatedAt, now - patienceMs), gt(updatedAt, now + patienceMs)),
    );
  const firstAsked = ({ updatedAt }: typeof payments | typeof refunds) =>
    asc(sql`iif(${updatedAt} > ${now + patienceMs}, 0, ${updatedAt})`);
  const [ofPayments, ofRefunds] = await db.batch([
    db
      .select()
      .from(payments)
      .where(unattended(payments))
      .orderBy(firstAsked(payments))
      .limit(limit),
    db.select().from(refunds).where(unattended(refunds)).orderBy(firstAsked(refunds)).limit(limit),
  ]);
  return [...ofPayments, ...ofRefunds]
    .toSorted((one, other) => lastAsked(one) - lastAsked(other))
    .slice(0, limit);
}

async function finish<Route extends RouteShape, Reads extends readonly Read[]>(
  reconciler: Reconciler,
  money: PaymentRow | RefundRow,
  mutation: Mutation<Route, Reads>,
  { body, params }: { body: unknown; params: unknown },
): Promise<Ending> {
  const { db, ports, settings } = reconciler;
  const principal = money.accountId;
  const key = money.idempotencyKey;
  const requestId = `reconciler-${ports.newId()}`;
  const input = { db, principal, key, body, params } as Parameters<typeof mutation.reads>[0];
  const row = await lookUp(db, { principal, key });
  if (row?.operationId !== operationIdOf(money)) {
    return finishWithoutKey(
      db,
      (reads) =>
        mutation.run({
          ...input,
          reads: reads as ReadResults<Reads>,
          operation: { id: operationIdOf(money), generation: 1 },
          now: ports.now(),
          requestId,
          checkpoint: async (writes) => {
            const sent = await sendBatch(db, writes);
            return sent.kind === "done" ? { kind: "held" } : { kind: "interrupted", by: sent };
          },
        }),
      mutation.reads(input),
    );
  }
  const trace: Trace = { phases: {}, runs: 0, timesFencedOut: 0 };
  const { kind } = await execute({
    db,
    ports,
    settings,
    principal,
    key,
    fingerprint: row.fingerprint,
    method: row.requestMethod,
    path: row.requestPath,
    waitMs: 0,
    reads: () => mutation.reads(input),
    run: ({ reads, ...run }) => {
      // Swept since it was looked up: the key would begin a new operation, which moves the money a second time. Without
      // an effect the claim is released, and the next run does without the key.
      if (run.operation.id !== operationIdOf(money)) {
        throw new Error("its key was evicted under way");
      }
      return mutation.run({ ...input, ...run, reads: reads as ReadResults<Reads>, requestId });
    },
    responseTooLarge: () => storedProblem(requestId, "idempotent_response_too_large"),
    trace,
  });
  await countFencedOut(db, trace.timesFencedOut);
  return { outcome: kind, error: trace.error };
}

function operationIdOf({ id }: PaymentRow | RefundRow): string {
  return id.slice(id.indexOf("_") + 1);
}

/**
 * The key was evicted, or names another operation by now: there is nothing to complete and nobody to fence out but other
 * reconcilers, and the triggers let only one of them settle. The money must not stay unsettled for that.
 */
async function finishWithoutKey(
  db: Database,
  run: (reads: readonly unknown[]) => Decision | Promise<Decision>,
  reads: readonly Read[],
): Promise<Ending> {
  const found = await sendBatch(db, reads);
  if (found.kind !== "done") return { outcome: found.kind, error: found.error };
  const decision = await run(found.results);
  switch (decision.kind) {
    case "outcome_unknown":
      return { outcome: decision.kind, error: decision.error };
    case "interrupted": {
      const { by } = decision;
      return by.kind === "fence_lost"
        ? { outcome: by.kind }
        : { outcome: by.kind, error: by.error };
    }
    case "decided": {
      if (decision.writes.length === 0) return { outcome: "executed" };
      const sent = await sendBatch(db, decision.writes);
      return sent.kind === "done"
        ? { outcome: "executed" }
        : { outcome: sent.kind, error: sent.error };
    }
  }
}
