/** One message to D1: a batch, or a single statement. */
export type RoundTrip = <Result>(send: () => Promise<Result>) => Promise<Result>;

const originals = new WeakMap<object, D1PreparedStatement>();

/**
 * The same database, with every message to it sent through `roundTrip`: to count and time them, or, in tests, to lose
 * one.
 */
export function interceptD1(d1: D1Database, roundTrip: RoundTrip): D1Database {
  const wrap = (statement: D1PreparedStatement): D1PreparedStatement => {
    const wrapped = {
      bind: (...values: unknown[]) => wrap(statement.bind(...values)),
      run: () => roundTrip(() => statement.run()),
      all: () => roundTrip(() => statement.all()),
      raw: (options: { columnNames: true }) => roundTrip(() => statement.raw(options)),
      first: (column: string) => roundTrip(() => statement.first(column)),
    } as D1PreparedStatement;
    originals.set(wrapped, statement);
    return wrapped;
  };
  return {
    prepare: (query: string) => wrap(d1.prepare(query)),
    batch: (statements: D1PreparedStatement[]) =>
      roundTrip(() => d1.batch(statements.map((statement) => originals.get(statement)!))),
  } as D1Database;
}
