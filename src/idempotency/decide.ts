import type { LedgerRow } from "./schema.ts";

/** The answer for a key: replayed byte for byte. */
export interface StoredResponse {
  status: number;
  /** Lower-case names; only the headers worth replaying (content-type, location). */
  headers: Record<string, string>;
  /** Null for an answer without a body. */
  body: string | null;
}

/** The exclusive, expiring right to execute the operation that a key names. */
export interface Reservation {
  principal: string;
  key: string;
  /** Survives takeovers: what is created under the key derives its ids from it. */
  operationId: string;
  generation: number;
  owner: string;
}

export interface ClaimRequest {
  principal: string;
  key: string;
  fingerprint: string;
  method: string;
  path: string;
  /** Used if the claim is fresh; a takeover keeps the one that is there. */
  operationId: string;
  owner: string;
  /** Epoch ms, read after the body has arrived: a slow upload must not make the claim stale from birth. */
  now: number;
  pendingTtlMs: number;
  retentionMs: number;
}

/** What the row says to one who asks for the claim. */
export type Verdict =
  | { kind: "won"; reservation: Reservation }
  | { kind: "completed"; response: StoredResponse }
  | { kind: "in_progress"; takeoverAfterMs: number }
  | { kind: "reused" }
  | { kind: "vanished" };

/** Reads the row as the claim left it. The order of the questions is part of the contract. */
export function decide(row: LedgerRow | undefined, request: ClaimRequest): Verdict {
  if (row === undefined) return { kind: "vanished" };
  // Before the status: another body in flight must hear 422 at once, not 409 first and 422 later.
  if (row.fingerprint !== request.fingerprint) return { kind: "reused" };
  if (row.status === "completed") return { kind: "completed", response: responseOf(row) };
  // By owner and not by "did my statement insert": a claim that was sent twice still knows itself.
  if (row.status === "pending" && row.owner === request.owner) {
    const { principal, key, operationId, generation, owner } = row;
    return { kind: "won", reservation: { principal, key, operationId, generation, owner } };
  }
  return { kind: "in_progress", takeoverAfterMs: leaseLeftMs(row, request) };
}

export function responseOf(row: LedgerRow): StoredResponse {
  if (row.responseStatus === null) throw new Error("bug: a completed row holds no response");
  return {
    status: row.responseStatus,
    headers: row.responseHeaders === null ? {} : JSON.parse(row.responseHeaders),
    body: row.responseBody,
  };
}

export function leaseLeftMs(
  row: LedgerRow,
  { now, pendingTtlMs }: { now: number; pendingTtlMs: number },
): number {
  return row.status === "pending" ? Math.max(0, row.updatedAt + pendingTtlMs - now) : 0;
}

export function isHeldBy(row: LedgerRow, reservation: Reservation): boolean {
  return row.owner === reservation.owner && row.generation === reservation.generation;
}
