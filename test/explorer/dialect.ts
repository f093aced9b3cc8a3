/** What a batch answers: each statement's rows and changes, or the words of its failure. */
type Said = { rows: unknown[][]; changes: number }[] | string;

/**
 * Batches, and what D1 says to them. One test asks the real D1, another the explorer's, so that neither can speak in a
 * way that the other does not.
 */
export const DIALECT: { name: string; batch: string[]; says: Said }[] = [
  {
    name: "a CHECK names itself",
    batch: ["INSERT INTO idempotency_fence VALUES (1)"],
    says: failed("CHECK constraint failed: idempotency_fence_lost", "CHECK"),
  },
  {
    name: "a primary key names its column",
    batch: [account("a", "x"), account("a", "y")],
    says: failed("UNIQUE constraint failed: accounts.id", "PRIMARYKEY"),
  },
  {
    name: "a unique index names its columns",
    batch: [account("a", "x"), account("b", "x")],
    says: failed("UNIQUE constraint failed: accounts.api_key_sha256", "UNIQUE"),
  },
  {
    name: "NOT NULL names its column",
    batch: ["INSERT INTO accounts VALUES ('a', NULL, 'x', 0)"],
    says: failed("NOT NULL constraint failed: accounts.name", "NOTNULL"),
  },
  {
    name: "a foreign key names nothing",
    batch: ["INSERT INTO orders VALUES ('o', 'nobody', 'pending', 'EUR', 1, NULL, 0, 0)"],
    says: failed("FOREIGN KEY constraint failed", "FOREIGNKEY"),
  },
  {
    name: "a trigger says what it raises",
    batch: [
      account("a", "x"),
      "INSERT INTO orders VALUES ('o', 'a', 'cancelled', 'EUR', 1, NULL, 0, 0)",
      "UPDATE orders SET status = 'paid'",
    ],
    says: failed("orders_transition_forbidden", "TRIGGER"),
  },
  {
    name: "a strict column takes its own type only",
    batch: ["INSERT INTO accounts VALUES ('a', 'A', 'x', 'soon')"],
    says: failed("cannot store TEXT value in INTEGER column accounts.created_at", "DATATYPE"),
  },
  {
    name: "what is not there is an error of another kind",
    batch: ["SELECT * FROM nowhere"],
    says: "D1_ERROR: no such table: nowhere: SQLITE_ERROR",
  },
  {
    name: "a batch that failed has left nothing, and one that succeeds says what it changed",
    batch: [
      "SELECT count(*) AS n FROM accounts",
      account("a", "x"),
      account("b", "y"),
      "UPDATE accounts SET name = 'B' WHERE created_at = 0",
      "SELECT id, name FROM accounts ORDER BY id",
      "DELETE FROM accounts",
    ],
    says: [
      { rows: [[0]], changes: 0 },
      { rows: [], changes: 1 },
      { rows: [], changes: 1 },
      { rows: [], changes: 2 },
      {
        rows: [
          ["a", "B"],
          ["b", "B"],
        ],
        changes: 0,
      },
      { rows: [], changes: 2 },
    ],
  },
  {
    name: "of two columns of one name the second is lost",
    batch: ["SELECT 1 AS n, 2 AS m, 3 AS n"],
    says: [{ rows: [[3, 2]], changes: 0 }],
  },
];

/** Asks a binding, one batch after the other. */
export async function ask(d1: D1Database, batch: readonly string[]): Promise<Said> {
  try {
    const results = await d1.batch<object>(batch.map((sql) => d1.prepare(sql)));
    return results.map(({ results: rows, meta }) => ({
      rows: rows.map((row) => Object.values(row)),
      changes: meta.changes,
    }));
  } catch (error) {
    return (error as Error).message;
  }
}

function account(id: string, hash: string): string {
  return `INSERT INTO accounts VALUES ('${id}', 'A', '${hash}', 0)`;
}

function failed(text: string, extended: string): string {
  return `D1_ERROR: ${text}: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_${extended})`;
}
