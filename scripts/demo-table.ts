import { stdout } from "node:process";

/** One claim, what was expected and what was seen in the same words: equal words mean that it holds. */
export interface Row {
  claim: string;
  expected: string;
  seen: string;
  /** Figures that may differ from run to run and prove nothing. */
  note?: string;
}

export function holds({ expected, seen }: Row): boolean {
  return expected === seen;
}

/** Columns as wide as their widest cell, two spaces between them. */
export function tableOf(rows: readonly Row[]): string {
  const cells = rows.map((row) => [
    row.claim,
    row.expected,
    row.note === undefined ? row.seen : `${row.seen} (${row.note})`,
    holds(row) ? "ok" : "FAILED",
  ]);
  const table = [["claim", "expected", "seen", ""], ...cells];
  const widths = table[0]!.map((_, column) => Math.max(...table.map((row) => row[column]!.length)));
  const rule = widths.map((width) => "-".repeat(width));
  return [table[0]!, rule, ...cells]
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Where a terminal does not say how wide it is. */
const USUAL_COLUMNS = 80;
const ERASE_LINE = "\r\u001B[K";

/** Says what is going on: in one line that rewrites itself on a terminal, line by line anywhere else. */
export function progress(text: string): void {
  // A line that wraps cannot be rewritten.
  const width = (stdout.columns || USUAL_COLUMNS) - 1;
  stdout.write(stdout.isTTY ? `${ERASE_LINE}${text.slice(0, width)}` : `${text}\n`);
}

/** Takes the progress line away, where there is one. */
export function endProgress(): void {
  if (stdout.isTTY) stdout.write(ERASE_LINE);
}
