import { DrizzleQueryError } from "drizzle-orm";
import type { DrizzleD1Database } from "drizzle-orm/d1";
import { expect, test } from "vitest";

import { assertNoColumnLost, classifyD1Failure, sendBatch } from "../../src/idempotency/batch.ts";

/** As D1 throws it: SQLite's own words are the cause, and the message has a prefix before them. */
function d1Error(message: string): Error {
  return new Error(`D1_ERROR: ${message}`, { cause: new Error(message) });
}

const lostFence = d1Error(
  "CHECK constraint failed: idempotency_fence_lost: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_CHECK)",
);

const constraints = [
  ["CHECK constraint failed: idempotency_fence_lost", "CHECK", "idempotency_fence_lost"],
  ["CHECK constraint failed: products_stock_not_negative", "CHECK", "products_stock_not_negative"],
  [
    "UNIQUE constraint failed: products.account_id, products.sku",
    "UNIQUE",
    "products.account_id, products.sku",
  ],
  ["UNIQUE constraint failed: orders.id", "PRIMARYKEY", "orders.id"],
  ["UNIQUE constraint failed: index 'one_per_order'", "UNIQUE", "index 'one_per_order'"],
  ["NOT NULL constraint failed: orders.total", "NOTNULL", "orders.total"],
  ["FOREIGN KEY constraint failed", "FOREIGNKEY", ""],
  ["orders_transition_forbidden", "TRIGGER", "orders_transition_forbidden"],
] as const;

test.each(constraints)("%s (%s) was rolled back for certain, by %j", (text, extended, name) => {
  const error = d1Error(`${text}: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_${extended})`);
  expect(classifyD1Failure(error)).toEqual({ kind: "constraint", name, error });
});

test.each(constraints)("%s is known by its prefixed message alone", (text, extended, name) => {
  const error = new Error(
    `D1_ERROR: ${text}: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_${extended})`,
  );
  expect(classifyD1Failure(error)).toEqual({ kind: "constraint", name, error });
});

test.each([
  "D1 DB is overloaded. Too many requests queued.",
  "D1 DB is overloaded. Requests queued for too long.",
  "Too many requests queued",
])("turned away before it ran: %s", (text) => {
  const error = d1Error(text);
  expect(classifyD1Failure(error)).toEqual({ kind: "overloaded", error });
});

test.each([
  "Network connection lost.",
  "D1 DB storage operation exceeded timeout which caused object to be reset.",
  "Internal error in D1 DB storage caused object to be reset.",
  "D1 DB reset because its code was updated.",
  "Cannot resolve D1 DB due to transient issue on remote node.",
  "no such table: orders: SQLITE_ERROR",
  "database is locked: SQLITE_BUSY",
  "",
])("may have been committed: %s", (text) => {
  const error = d1Error(text);
  expect(classifyD1Failure(error)).toEqual({ kind: "ambiguous", error });
});

test.each([["a string"], [undefined], [null], [{ message: lostFence.message }]])(
  "something thrown that is no error proves nothing: %j",
  (thrown) => {
    expect(classifyD1Failure(thrown)).toEqual({ kind: "ambiguous", error: thrown });
  },
);

test("Drizzle's wrapping hides neither a constraint nor an overload nor a lost answer", () => {
  const wrapped = (cause: Error) => new DrizzleQueryError("insert into x values (?)", ["v"], cause);
  expect(classifyD1Failure(wrapped(lostFence))).toMatchObject({
    kind: "constraint",
    name: "idempotency_fence_lost",
  });
  expect(classifyD1Failure(wrapped(d1Error("Too many requests queued")))).toMatchObject({
    kind: "overloaded",
  });
  expect(classifyD1Failure(wrapped(d1Error("Network connection lost.")))).toMatchObject({
    kind: "ambiguous",
  });
});

test.each([
  lostFence.message,
  "CHECK constraint failed: idempotency_fence_lost: SQLITE_CONSTRAINT",
  "Too many requests queued",
])("a bound value that reads like a failure is not taken for one: %s", (value) => {
  const cause = d1Error("Network connection lost.");
  const error = new DrizzleQueryError("insert into orders (reference) values (?)", [value], cause);
  expect(error.message).toContain(value);
  expect(classifyD1Failure(error)).toEqual({ kind: "ambiguous", error });
});

/** Stands in for the one call that is made of the database. */
function databaseWhere(batch: (statements: unknown) => Promise<unknown>) {
  return { batch } as unknown as DrizzleD1Database;
}

test("statements go out as one batch, in their order, and its results come back", async () => {
  const sent: unknown[] = [];
  const db = databaseWhere(async (statements) => {
    sent.push(statements);
    return [["row"], { success: true }];
  });
  const statements = ["one", "two"] as unknown as Parameters<typeof sendBatch>[1];

  expect(await sendBatch(db, statements)).toEqual({
    kind: "done",
    results: [["row"], { success: true }],
  });
  expect(sent).toEqual([["one", "two"]]);
});

test("a batch that fails is an answer, not a throw, and is not sent again", async () => {
  let sends = 0;
  const failing = (error: Error) =>
    databaseWhere(async () => {
      sends++;
      throw error;
    });
  const lost = d1Error("Network connection lost.");

  expect(await sendBatch(failing(lostFence), [])).toEqual({
    kind: "constraint",
    name: "idempotency_fence_lost",
    error: lostFence,
  });
  expect(await sendBatch(failing(lost), [])).toEqual({ kind: "ambiguous", error: lost });
  expect(sends).toBe(2);
});

test.each([
  ["no rows", [[]]],
  ["no queries", []],
  ["values, NULL among them", [[{ id: "1", total: 0, reference: null, name: "", flag: false }]]],
  ["a join, one side of it missing", [[{ orders: { id: "1" }, payments: null }]]],
  ["the report of a write", [{ success: true, meta: { changes: undefined } }]],
])("results without a loss pass: %s", (_what, results) => {
  expect(() => assertNoColumnLost(results)).not.toThrow();
});

test.each([
  ["the last column", [[{ id: "2", name: undefined }]]],
  ["a number", [[{ id: "2", total: Number.NaN }]]],
  ["in a later row", [[{ id: "1" }, { id: undefined }]]],
  ["in a later query", [[{ id: "1" }], [{ id: undefined }]]],
  ["inside a join", [[{ orders: { id: "1" }, items: { id: "2", name: undefined } }]]],
])("a value that no database returns betrays the lost column: %s", (_what, results) => {
  expect(() => assertNoColumnLost(results)).toThrow(
    "bug: a query in a batch selects two columns of one name",
  );
});
