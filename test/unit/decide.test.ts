import * as fc from "fast-check";
import { expect, test } from "vitest";

import {
  type ClaimRequest,
  decide,
  isHeldBy,
  leaseLeftMs,
  responseOf,
} from "../../src/idempotency/decide.ts";
import type { LedgerRow } from "../../src/idempotency/schema.ts";

const NOW = 1_700_000_000_000;
const TTL = 30_000;

const request: ClaimRequest = {
  principal: "acct_1",
  key: "k1",
  fingerprint: "v1:mine",
  method: "POST",
  path: "/orders",
  operationId: "operation-of-this-request",
  owner: "me",
  now: NOW,
  pendingTtlMs: TTL,
  retentionMs: 86_400_000,
};

/** Claimed just now by someone else, for the same request. */
function rowWith(difference: Partial<LedgerRow> = {}): LedgerRow {
  return {
    principal: "acct_1",
    key: "k1",
    operationId: "operation-of-the-first-claim",
    fingerprint: "v1:mine",
    status: "pending",
    generation: 3,
    owner: "someone else",
    requestMethod: "POST",
    requestPath: "/orders",
    responseStatus: null,
    responseHeaders: null,
    responseBody: null,
    createdAt: NOW - 5_000,
    updatedAt: NOW,
    expiresAt: NOW + 86_400_000,
    ...difference,
  };
}

const stored = {
  status: "completed",
  responseStatus: 201,
  responseHeaders: '{"content-type":"application/json","location":"/orders/ord_1"}',
  responseBody: '{"id":"ord_1"}',
} as const;
const response = {
  status: 201,
  headers: { "content-type": "application/json", location: "/orders/ord_1" },
  body: '{"id":"ord_1"}',
};

test("a row that is not there has vanished", () => {
  expect(decide(undefined, request)).toEqual({ kind: "vanished" });
});

test.each([
  ["in flight", rowWith({ fingerprint: "v1:other" })],
  ["in flight, and mine by owner", rowWith({ fingerprint: "v1:other", owner: "me" })],
  ["past its lease", rowWith({ fingerprint: "v1:other", updatedAt: 0 })],
  ["completed", rowWith({ fingerprint: "v1:other", ...stored })],
  ["released", rowWith({ fingerprint: "v1:other", status: "released" })],
])("another request under the key is reuse, whatever the status: %s", (_status, row) => {
  expect(decide(row, request)).toEqual({ kind: "reused" });
});

test.each(["v1:min", "v1:minE", "v2:mine", ""])(
  "%j is another fingerprint than v1:mine",
  (other) => {
    expect(decide(rowWith({ fingerprint: other, ...stored }), request)).toEqual({ kind: "reused" });
  },
);

test("a completed operation is replayed, whoever completed it and however long ago", () => {
  const byOther = rowWith(stored);
  const byMe = rowWith({ ...stored, owner: "me" });
  const expired = rowWith({ ...stored, updatedAt: 0, expiresAt: 1 });
  for (const row of [byOther, byMe, expired]) {
    expect(decide(row, request)).toEqual({ kind: "completed", response });
  }
});

test("the owner of a pending row executes, under the row's operation and generation", () => {
  expect(decide(rowWith({ owner: "me" }), request)).toEqual({
    kind: "won",
    reservation: {
      principal: "acct_1",
      key: "k1",
      operationId: "operation-of-the-first-claim",
      generation: 3,
      owner: "me",
    },
  });
});

test("a claim that was sent twice knows itself, also when its lease has run out meanwhile", () => {
  const row = rowWith({ owner: "me", updatedAt: NOW - TTL - 1 });
  expect(decide(row, request)).toMatchObject({ kind: "won", reservation: { owner: "me" } });
});

test("a pending row of another owner is in progress, with what is left of its lease", () => {
  const row = rowWith({ updatedAt: NOW - 12_000 });
  expect(decide(row, request)).toEqual({ kind: "in_progress", takeoverAfterMs: 18_000 });
});

test("a released row is nobody's: not even its last owner executes without claiming it again", () => {
  const released = { kind: "in_progress", takeoverAfterMs: 0 };
  expect(decide(rowWith({ status: "released" }), request)).toEqual(released);
  expect(decide(rowWith({ status: "released", owner: "me" }), request)).toEqual(released);
});

test.each([
  ["the moment it starts", 0, TTL],
  ["one millisecond later", 1, TTL - 1],
  ["one millisecond before its end", TTL - 1, 1],
  ["at its end", TTL, 0],
  ["after its end", TTL + 1, 0],
  ["long after its end", 10 * TTL, 0],
])("what is left of a lease: %s", (_when, elapsedMs, leftMs) => {
  const at = { now: NOW + elapsedMs, pendingTtlMs: TTL };
  expect(leaseLeftMs(rowWith({ updatedAt: NOW }), at)).toBe(leftMs);
});

test("a lease that was given up has nothing left", () => {
  expect(leaseLeftMs(rowWith({ updatedAt: 0 }), request)).toBe(0);
});

test("for a clock that went backwards the lease is that much longer, as it is for the claim", () => {
  const row = rowWith({ updatedAt: NOW + 5_000 });
  expect(leaseLeftMs(row, request)).toBe(TTL + 5_000);
  expect(decide(row, request)).toEqual({ kind: "in_progress", takeoverAfterMs: TTL + 5_000 });
});

test("only a pending row has a lease", () => {
  expect(leaseLeftMs(rowWith({ status: "released" }), request)).toBe(0);
  expect(leaseLeftMs(rowWith(stored), request)).toBe(0);
});

test("whoever waits for what is left of a lease waits to its end, and never a negative time", () => {
  const times = fc.integer({ min: 0, max: 2 * NOW });
  fc.assert(
    fc.property(times, times, fc.integer({ min: 1, max: 86_400_000 }), (updatedAt, now, ttl) => {
      const left = leaseLeftMs(rowWith({ updatedAt }), { now, pendingTtlMs: ttl });
      expect(left).toBeGreaterThanOrEqual(0);
      expect(now + left).toBe(Math.max(now, updatedAt + ttl));
    }),
  );
});

test("a row is held by one owner in one generation", () => {
  const reservation = {
    principal: "acct_1",
    key: "k1",
    operationId: "op",
    generation: 3,
    owner: "me",
  };
  expect(isHeldBy(rowWith({ owner: "me" }), reservation)).toBe(true);
  expect(isHeldBy(rowWith({ owner: "you" }), reservation)).toBe(false);
  expect(isHeldBy(rowWith({ owner: "me", generation: 4 }), reservation)).toBe(false);
  expect(isHeldBy(rowWith({ owner: "me", generation: 2 }), reservation)).toBe(false);
});

test("a stored response comes back as it was, with or without headers and body", () => {
  expect(responseOf(rowWith(stored))).toEqual(response);
  expect(responseOf(rowWith({ ...stored, responseBody: null }))).toEqual({
    ...response,
    body: null,
  });
  expect(responseOf(rowWith({ ...stored, responseBody: "" }))).toEqual({ ...response, body: "" });
  expect(responseOf(rowWith({ ...stored, responseHeaders: null }))).toEqual({
    ...response,
    headers: {},
  });
});

test("a completed row without a response is a bug, not an answer", () => {
  const broken = rowWith({ status: "completed" });
  expect(() => decide(broken, request)).toThrow("bug: a completed row holds no response");
});
