import { and, asc, eq, lt } from "drizzle-orm";

import type { ExecuteSettings, Ports, Trace } from "../idempotency/attempt.ts";
import { execute } from "../idempotency/idempotent.ts";
import { type Database, lookUp, type Read, type ReadResults } from "../idempotency/ledger.ts";
import type { Mutation, RouteShape } from "../idempotency/mutation.ts";
import { storedProblem } from "../problem.ts";
import type { Provider } from "./charge.ts";
import { payOrder } from "./pay-order.ts";
import { refundPayment } from "./refund-payment.ts";
import { payments, type PaymentRow, refunds, type RefundRow } from "./schema.ts";

/** Payments, and refunds, of one run: each costs a few round trips and a provider call, and an invocation has limits. */
const BATCH_SIZE = 20;
/** A retry or a webhook mostly comes within one lease; after two nobody is coming. */
const PATIENCE_IN_TTLS = 2;

export interface ReconcileReport {
  settled: string[];
  /** What the provider could not say either, or whose key is gone. They are tried again on the next run. */
  unsettled: string[];
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
  const { hangingPayments, hangingRefunds } = await hanging(db, {
    before: ports.now() - PATIENCE_IN_TTLS * settings.pendingTtlMs,
    limit: BATCH_SIZE,
  });
  const report: ReconcileReport = { settled: [], unsettled: [] };
  for (const payment of hangingPayments) {
    const input = {
      body: { payment_method: payment.paymentMethod },
      params: { id: payment.orderId },
    };
    const isSettled = await finish(reconciler, payment, payOrder(provider), input);
    report[isSettled ? "settled" : "unsettled"].push(payment.id);
  }
  for (const refund of hangingRefunds) {
    const input = { body: { amount: refund.amount }, params: { id: refund.paymentId } };
    const isSettled = await finish(reconciler, refund, refundPayment(provider), input);
    report[isSettled ? "settled" : "unsettled"].push(refund.id);
  }
  return report;
}

/** What has been processing since before a time, longest first. */
export async function hanging(db: Database, { before, limit }: { before: number; limit: number }) {
  const [hangingPayments, hangingRefunds] = await db.batch([
    db
      .select()
      .from(payments)
      .where(and(eq(payments.status, "processing"), lt(payments.updatedAt, before)))
      .orderBy(asc(payments.updatedAt))
      .limit(limit),
    db
      .select()
      .from(refunds)
      .where(and(eq(refunds.status, "processing"), lt(refunds.updatedAt, before)))
      .orderBy(asc(refunds.updatedAt))
      .limit(limit),
  ]);
  return { hangingPayments, hangingRefunds };
}

async function finish<Route extends RouteShape, Reads extends readonly Read[]>(
  { db, ports, settings }: Reconciler,
  hung: PaymentRow | RefundRow,
  mutation: Mutation<Route, Reads>,
  { body, params }: { body: unknown; params: unknown },
): Promise<boolean> {
  const principal = hung.accountId;
  const key = hung.idempotencyKey;
  const row = await lookUp(db, { principal, key });
  // Without the row of its own operation a claim would begin another one, with another id at the provider.
  if (row === undefined || !hung.id.endsWith(row.operationId)) return false;

  const input = { db, principal, key, body, params } as Parameters<typeof mutation.reads>[0];
  const requestId = `reconciler-${ports.newId()}`;
  const trace: Trace = { phases: {}, runs: 0, isFencedOut: false };
  const outcome = await execute({
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
    run: ({ reads, ...run }) =>
      mutation.run({ ...input, ...run, reads: reads as ReadResults<Reads>, requestId }),
    responseTooLarge: () => storedProblem(requestId, "idempotent_response_too_large"),
    trace,
  });
  return outcome.kind === "executed" || outcome.kind === "replayed";
}
