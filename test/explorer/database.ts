import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";

/** A statement as D1 receives it. */
export interface Statement {
  sql: string;
  params: readonly SQLInputValue[];
}

/** Rows as arrays, since a row as an object loses the second of two columns of one name. */
export interface Result {
  columns: string[];
  rows: unknown[][];
  changes: number;
}

export type Database = ReturnType<typeof openDatabase>;

const MIGRATIONS = join(import.meta.dirname, "../../drizzle");

/**
 * The real schema on the real SQLite, in memory, that can be set back to how it began: what stands behind D1, without
 * the network.
 *
 * @param seed SQL that is run once, after the migrations.
 */
export function openDatabase(seed: string) {
  const sqlite = new DatabaseSync(":memory:");
  for (const file of globSync("*.sql", { cwd: MIGRATIONS }).toSorted()) {
    sqlite.exec(readFileSync(join(MIGRATIONS, file), "utf8"));
  }
  sqlite.exec(seed);
  sqlite.exec("SAVEPOINT beginning");

  const prepared = new Map<string, StatementSync>();
  const prepare = (sql: string) => {
    const known = prepared.get(sql);
    if (known !== undefined) return known;
    const statement = sqlite.prepare(sql);
    statement.setReturnArrays(true);
    prepared.set(sql, statement);
    return statement;
  };

  function run({ sql, params }: Statement): Result {
    const statement = prepare(sql);
    const columns = statement.columns().map(({ name }) => name);
    if (columns.length === 0) {
      return { columns, rows: [], changes: Number(statement.run(...params).changes) };
    }
    return { columns, rows: statement.all(...params) as unknown as unknown[][], changes: 0 };
  }

  /** All in one transaction, as D1's `batch()`. @throws with D1's words for what SQLite refused. */
  function carryOut(statements: readonly Statement[]): Result[] {
    sqlite.exec("SAVEPOINT batch");
    try {
      const results = statements.map(run);
      sqlite.exec("RELEASE batch");
      return results;
    } catch (error) {
      sqlite.exec("ROLLBACK TO batch; RELEASE batch");
      throw asD1Error(error);
    }
  }

  /** Every row of every table but the figures', which no attempt reads: two databases with one dump are the same. */
  function dump(): string {
    const rows = tables.map((name) => run({ sql: `SELECT * FROM ${name}`, params: [] }).rows);
    return JSON.stringify(rows);
  }

  /** Rows as objects, for whoever looks on. */
  function read<Row>(sql: string): Row[] {
    return asD1Result(run({ sql, params: [] })).results as Row[];
  }

  /** Ids of the payments and refunds that are not settled. */
  function unsettled(): string[] {
    const of = (table: string) => `SELECT id FROM ${table} WHERE status = 'processing'`;
    const ids = read<{ id: string }>(`${of("payments")} UNION ALL ${of("refunds")}`);
    return ids.map(({ id }) => id);
  }

  const tables = read<{ name: string }>(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('ledger_figures', 'sweep_runs')",
  ).map(({ name }) => name);

  return {
    carryOut,
    read,
    dump,
    unsettled,
    exec: (sql: string) => sqlite.exec(sql),
    /** Forgets everything since the seed. */
    rewind: () => sqlite.exec("ROLLBACK TO beginning"),
  };
}

const SQLITE_CONSTRAINT = 19;
/** Extended result codes: https://sqlite.org/rescode.html#extrc */
const EXTENDED = new Map([
  [275, "SQLITE_CONSTRAINT_CHECK"],
  [787, "SQLITE_CONSTRAINT_FOREIGNKEY"],
  [1299, "SQLITE_CONSTRAINT_NOTNULL"],
  [1555, "SQLITE_CONSTRAINT_PRIMARYKEY"],
  [1811, "SQLITE_CONSTRAINT_TRIGGER"],
  [2067, "SQLITE_CONSTRAINT_UNIQUE"],
  [3091, "SQLITE_CONSTRAINT_DATATYPE"],
]);

function asD1Error(error: unknown): Error {
  const { message, errcode } = error as { message: string; errcode?: number };
  if (errcode === undefined) return new Error(`D1_TYPE_ERROR: ${message}`, { cause: error });
  const isConstraint = (errcode & 0xff) === SQLITE_CONSTRAINT;
  const code = isConstraint
    ? `SQLITE_CONSTRAINT (extended: ${EXTENDED.get(errcode) ?? errcode})`
    : "SQLITE_ERROR";
  return new Error(`D1_ERROR: ${message}: ${code}`, { cause: error });
}

/**
 * D1's binding, as far as Drizzle uses it. Each message, a batch or a single statement, goes through `send`.
 */
export function bindingTo(
  send: (statements: readonly Statement[]) => Promise<Result[]>,
): D1Database {
  const statements = new WeakMap<object, Statement>();
  const prepare = (sql: string, params: readonly SQLInputValue[] = []): D1PreparedStatement => {
    const statement = { sql, params };
    const one = async () => (await send([statement]))[0]!;
    const binding = {
      bind: (...values: SQLInputValue[]) => prepare(sql, values),
      run: async () => asD1Result(await one()),
      all: async () => asD1Result(await one()),
      raw: async () => (await one()).rows,
    } as unknown as D1PreparedStatement;
    statements.set(binding, statement);
    return binding;
  };
  return {
    prepare,
    batch: async (batch: D1PreparedStatement[]) =>
      (await send(batch.map((statement) => statements.get(statement)!))).map(asD1Result),
  } as unknown as D1Database;
}

/** Rows as objects, so that two columns of one name become one, as they do in D1. */
function asD1Result({ columns, rows, changes }: Result) {
  const results = rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
  return { success: true, results, meta: { changes } };
}
