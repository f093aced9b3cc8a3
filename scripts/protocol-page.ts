import { readFileSync } from "node:fs";
import { join } from "node:path";

const PAGE = readFileSync(join(import.meta.dirname, "../docs/protocol.md"), "utf8");

/**
 * Which rows of the tables in docs/protocol.md say something else than what was counted. The counts are the same on every
 * machine, so the page is held to them.
 *
 * @param counted By the first cell of a row, the cells that follow, from the first on.
 */
export function outdatedRows(counted: Record<string, readonly (string | number)[]>): string[] {
  const cellsOf = (row: string) => row.split("|").map((cell) => cell.replaceAll("`", "").trim());
  const rows = PAGE.split("\n").filter((line) => line.startsWith("| "));
  const said = new Map(rows.map((row) => [cellsOf(row)[1]!, cellsOf(row).slice(2)]));
  return Object.entries(counted).flatMap(([name, cells]) => {
    const seen = cells.map((cell) => cell.toLocaleString("en"));
    const isSaid = seen.every((cell, i) => cell === said.get(name)?.[i]);
    return isSaid ? [] : `docs/protocol.md is out of date on "${name}": ${seen.join(" | ")}`;
  });
}
