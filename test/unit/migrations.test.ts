import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

import { expect, test } from "vitest";

import { ROOT } from "../../scripts/local-service.ts";

// Goal: a database that has been in use is migrated to what is true of it, not only to the shape of an empty one.

/** The database as it is before a migration, and that migration. */
function before(name: string) {
  const sqlite = new DatabaseSync(":memory:");
  const apply = (file: string) => sqlite.exec(readFileSync(join(ROOT, "drizzle", file), "utf8"));
  const files = globSync("*.sql", { cwd: join(ROOT, "drizzle") }).toSorted();
  files.slice(0, files.indexOf(name)).forEach(apply);
  return { sqlite, migrate: () => apply(name) };
}

const newestEvictedAt = (sqlite: DatabaseSync) =>
  Number(sqlite.prepare("SELECT newest_evicted_at AS at FROM ledger_figures").get()!["at"]);

test("0007: an order from before may have lost its key to a sweep that nobody booked", () => {
  const used = before("0007_newest_evicted.sql");
  used.sqlite.exec(`INSERT INTO accounts VALUES ('acct_1', 'One', 'hash', 0);
    INSERT INTO orders VALUES ('ord_1', 'acct_1', 'pending', 'EUR', 1, NULL, 1000, 1000)`);

  used.migrate();

  expect(newestEvictedAt(used.sqlite)).toBeGreaterThan(1_000);
});

test("0007: in a shop without orders nothing is taken for evicted", () => {
  const fresh = before("0007_newest_evicted.sql");

  fresh.migrate();

  expect(newestEvictedAt(fresh.sqlite)).toBe(0);
});
