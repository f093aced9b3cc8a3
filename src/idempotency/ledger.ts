import { and, eq, gt, lte, ne, notExists, or, sql, type SQLWrapper } from "drizzle-orm";
import type { BatchItem, BatchResponse } from "drizzle-orm/batch";
import type { DrizzleD1Database } from "drizzle-orm/d1";

import { sendBatch, type D1Failure } from "./batch.ts";
import {
  type ClaimRequest,
  decide,
  type Reservation,
  type StoredResponse,
  type Verdict,
} from "./decide.ts";
import { idempotencyFence, idempotencyKeys, type LedgerRow } from "./schema.ts";

export type Database = DrizzleD1Database;
/** A statement that changes rows, not yet sent: what a mutation returns instead of writing. */
export type Write = BatchItem<"sqlite">;
/** A select that rides along with the claim: only a query has `as`, so that a write cannot slip in unfenced. */
export type Read = BatchItem<"sqlite"> & { as(alias: string): unknown };
export type ReadResults<Reads extends readonly Read[]> = BatchResponse<Reads>;

export type Claim<Reads extends readonly Read[]> =
  | (Extract<Verdict, { kind: "won" }> & { reads: ReadResults<Reads> })
  | Exclude<Verdict, { kind: "won" }>
  | Exclude<D1Failure, { kind: "constraint" }>;

export type Commit = { kind: "committed" } | { kind: "fence_lost" } | D1Failure;

/**
 * Claims the key, or takes over a stale or released claim, and reads whatever the mutation asked for: one batch, so
 * one round trip and one transaction.
 */
export async function claim<const Reads extends readonly Read[]>(
  db: Database,
  request: ClaimRequest,
  reads: Reads,
): Promise<Claim<Reads>> {
  const sent = await sendBatch(db, [
    claimOrTakeOver(db, request),
    selectRow(db, request),
    ...reads,
  ] as const);
  if (sent.kind === "constraint") throw new Error(`bug: a claim broke the constraint ${sent.name}`);
  if (sent.kind !== "done") return sent;

  const [, rows, ...results] = sent.results;
  const verdict = decide(rows[0], request);
  return verdict.kind === "won" ? { ...verdict, reads: results } : verdict;
}

/** Commits the business writes and the stored response together, if the reservation still stands. */
export async function commit(
  db: Database,
  reservation: Reservation,
  { writes, response, now }: { writes: readonly Write[]; response: StoredResponse; now: number },
): Promise<Commit> {
  const complete = db
    .update(idempotencyKeys)
    .set({
      status: "completed",
      responseStatus: response.status,
      responseHeaders: JSON.stringify(response.headers),
      responseBody: response.body,
      updatedAt: now,
    })
    .where(heldBy(reservation));
  return sendFenced(db, reservation, [...writes, complete]);
}

/**
 * Commits intermediate effects if the reservation still stands, keeps the claim and renews its lease from `now`.
 * Record an intent here before calling a system that this database cannot roll back.
 */
export async function checkpoint(
  db: Database,
  reservation: Reservation,
  { writes, now }: { writes: readonly Write[]; now: number },
): Promise<Commit> {
  const renew = db.update(idempotencyKeys).set({ updatedAt: now }).where(heldBy(reservation));
  return sendFenced(db, reservation, [...writes, renew]);
}

/** Gives the claim back because nothing happened. The row stays, so the generation goes on counting from here. */
export async function release(db: Database, reservation: Reservation): Promise<void> {
  await db.update(idempotencyKeys).set({ status: "released" }).where(heldBy(reservation));
}

/** Ends the lease at once but keeps the row pending: something may have happened, and the next try continues it. */
export async function giveUpLease(db: Database, reservation: Reservation): Promise<void> {
  await db.update(idempotencyKeys).set({ updatedAt: 0 }).where(heldBy(reservation));
}

/** Ends the lease of a claim that was sent and never answered: who owned it is all that is known of it. */
export async function disown(
  db: Database,
  { principal, key, owner }: Pick<Reservation, "principal" | "key" | "owner">,
): Promise<void> {
  await db.update(idempotencyKeys).set({ updatedAt: 0 }).where(ownedBy({ principal, key, owner }));
}

/** The row as it is now, after a commit was refused. */
export function lookAgain(db: Database, reservation: Reservation) {
  return sendBatch(db, [selectRow(db, reservation)] as const);
}

export async function lookUp(
  db: Database,
  { principal, key }: { principal: string; key: string },
): Promise<LedgerRow | undefined> {
  const rows = await selectRow(db, { principal, key });
  return rows[0];
}

function claimOrTakeOver(db: Database, request: ClaimRequest) {
  const { principal, key, operationId, fingerprint, owner, now } = request;
  const leaseStart = { updatedAt: now, expiresAt: now + request.retentionMs };
  return db
    .insert(idempotencyKeys)
    .values({
      principal,
      key,
      operationId,
      fingerprint,
      owner,
      ...leaseStart,
      status: "pending",
      generation: 1,
      requestMethod: request.method,
      requestPath: request.path,
      createdAt: now,
    })
    .onConflictDoUpdate({
      target: [idempotencyKeys.principal, idempotencyKeys.key],
      // The old owner may still be running. The higher generation makes its commit fail.
      set: {
        generation: sql`${idempotencyKeys.generation} + 1`,
        status: "pending",
        owner,
        ...leaseStart,
      },
      setWhere: and(
        eq(idempotencyKeys.fingerprint, fingerprint),
        ne(idempotencyKeys.status, "completed"),
        noLease(request),
      ),
    });
}

function selectRow(db: Database, { principal, key }: { principal: string; key: string }) {
  return db
    .select()
    .from(idempotencyKeys)
    .where(and(eq(idempotencyKeys.principal, principal), eq(idempotencyKeys.key, key)));
}

/** Nobody may be executing under this row: it is completed, released, or its lease has run out. */
export function noLease(
  { now, pendingTtlMs }: { now: number; pendingTtlMs: number },
  { status, updatedAt }: { status: SQLWrapper; updatedAt: SQLWrapper } = idempotencyKeys,
) {
  return or(
    ne(status, "pending"),
    lte(updatedAt, now - pendingTtlMs),
    // A lease that begins further ahead than it is long comes from a clock that was wrong.
    gt(updatedAt, now + pendingTtlMs),
  );
}

function heldBy(reservation: Reservation) {
  return and(ownedBy(reservation), eq(idempotencyKeys.generation, reservation.generation));
}

function ownedBy({ principal, key, owner }: Pick<Reservation, "principal" | "key" | "owner">) {
  return and(
    eq(idempotencyKeys.principal, principal),
    eq(idempotencyKeys.key, key),
    eq(idempotencyKeys.owner, owner),
    eq(idempotencyKeys.status, "pending"),
  );
}

async function sendFenced(
  db: Database,
  reservation: Reservation,
  writes: readonly Write[],
): Promise<Commit> {
  const held = db
    .select({ held: sql`1` })
    .from(idempotencyKeys)
    .where(heldBy(reservation));
  const fence = db.insert(idempotencyFence).select(sql`SELECT 1 WHERE ${notExists(held)}`);
  const sent = await sendBatch(db, [fence, ...writes]);
  if (sent.kind === "constraint" && sent.name === "idempotency_fence_lost") {
    return { kind: "fence_lost" };
  }
  if (sent.kind !== "done") return sent;

  const touched = (sent.results.at(-1) as D1Result).meta.changes;
  if (touched !== 1) throw new Error(`bug: a fenced batch changed ${touched} ledger rows`);
  return { kind: "committed" };
}
