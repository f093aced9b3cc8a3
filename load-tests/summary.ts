import { text } from "./settings.ts";

/** What k6 gives handleSummary(): https://grafana.com/docs/k6/latest/results-output/end-of-test/custom-summary/ */
interface SummaryData {
  state: { testRunDurationMs: number };
  metrics: Record<string, Metric>;
}

interface Metric {
  values: Record<string, number>;
  thresholds?: Record<string, { ok: boolean }>;
}

/**
 * Makes a script's handleSummary(): a line for each threshold, then the ledger's equation, and all that k6 measured as
 * JSON. Without it k6 prints a page of its own, in which the few figures that matter are hard to find.
 */
export function summaryOf(title: string) {
  return (data: SummaryData): Record<string, string> => {
    const seconds = Math.round(data.state.testRunDurationMs / 1000);
    const rows = Object.entries(data.metrics).flatMap(([name, metric]) => rowsOf(name, metric));
    rows.sort(([one], [other]) => (one! < other! ? -1 : 1));
    const table = tableOf([["measured", "demanded", "seen", ""], ...rows]);
    const stdout = `\n${title}, ${seconds} s\n\n${table}\n\n${equationOf(data)}\n`;
    return { stdout, [text("SUMMARY", "load-summary.json")]: JSON.stringify(data, null, 2) };
  };
}

function rowsOf(name: string, { values, thresholds = {} }: Metric): string[][] {
  return Object.entries(thresholds).map(([expression, { ok }]) => {
    const aggregate = /^[a-z]+(\([\d.]+\))?/.exec(expression)?.[0] ?? "";
    const seen = values[aggregate];
    return [name, expression, seen === undefined ? "-" : rounded(seen), ok ? "ok" : "FAILED"];
  });
}

function rounded(value: number): string {
  return String(Math.round(value * 100) / 100);
}

function tableOf(rows: readonly string[][]): string {
  const widthOf = (column: number) => Math.max(...rows.map((row) => row[column]?.length ?? 0));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widthOf(column)))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** From the ledger, the stock that is missing and the provider's books, none of it from what this run counted. */
function equationOf({ metrics }: SummaryData): string {
  const valueOf = (name: string) => metrics[name]?.values["value"] ?? 0;
  if (valueOf("books_read") !== 1) return "The books could not be read: nothing is proved.";
  const unexplained = valueOf("ledger_unexplained");
  const others = unexplained > 0 ? ` + ${unexplained} others` : "";
  return [
    `${valueOf("ledger_keys")} distinct keys`,
    unexplained < 0 ? "≠" : "=",
    `${valueOf("shop_orders")} orders + ${valueOf("provider_charges")} charges + ${valueOf("provider_refunds")} refunds${others}`,
  ].join(" ");
}
