/** A metric of Prometheus. What is not known (null) is left out: a sample is a number. */
export interface Metric {
  name: string;
  type: "counter" | "gauge";
  help: string;
  samples: { labels?: Record<string, string>; value: number | null }[];
}

/** https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format */
export const EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export function exposition(metrics: readonly Metric[]): string {
  return metrics.map(expose).join("");
}

function expose({ name, type, help, samples }: Metric): string {
  const lines = samples
    .filter(({ value }) => value !== null)
    .map(({ labels = {}, value }) => `${name}${labelSet(labels)} ${value}`);
  if (lines.length === 0) return "";
  return [`# HELP ${name} ${escape(help)}`, `# TYPE ${name} ${type}`, ...lines, ""].join("\n");
}

function labelSet(labels: Record<string, string>): string {
  const pairs = Object.entries(labels).map(
    ([label, value]) => `${label}="${escape(value).replaceAll('"', '\\"')}"`,
  );
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escape(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}
