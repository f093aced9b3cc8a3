/** Sums up samples as k6 does, and asks its thresholds: https://grafana.com/docs/k6/latest/using-k6/thresholds/ */
export type MetricType = "counter" | "gauge" | "rate" | "trend";
export type Tags = Readonly<Record<string, string>>;

export interface Metric {
  type: MetricType;
  contains: "default" | "time";
  /** Of a sub-metric: which samples of its parent are its own. */
  tags: Tags;
  samples: number[];
  thresholds: Threshold[];
}

interface Threshold {
  source: string;
  aggregate: string;
  operator: keyof typeof OPERATORS;
  limit: number;
}

export type Metrics = Map<string, Metric>;

const AGGREGATES: Record<MetricType, RegExp> = {
  counter: /^(count|rate)$/,
  gauge: /^value$/,
  rate: /^rate$/,
  trend: /^(avg|min|max|med|p\((100|\d{1,2}(\.\d+)?)\))$/,
};
const OPERATORS = {
  "<=": (seen: number, limit: number) => seen <= limit,
  "<": (seen: number, limit: number) => seen < limit,
  ">=": (seen: number, limit: number) => seen >= limit,
  ">": (seen: number, limit: number) => seen > limit,
  "===": (seen: number, limit: number) => seen === limit,
  "==": (seen: number, limit: number) => seen === limit,
  "!=": (seen: number, limit: number) => seen !== limit,
};
const EXPRESSION = /^([a-z]+(?:\([\d.]+\))?)\s*(<=|<|>=|>|===|==|!=)\s*(-?\d+(?:\.\d+)?)$/;
const NAME = /^[A-Za-z_]\w{1,127}$/;

/** What k6 measures by itself, as far as the stand-in does. */
const BUILT_IN: [string, MetricType, Metric["contains"]][] = [
  ["http_reqs", "counter", "default"],
  ["http_req_failed", "rate", "default"],
  ["http_req_duration", "trend", "time"],
  ["iterations", "counter", "default"],
  ["iteration_duration", "trend", "time"],
  ["dropped_iterations", "counter", "default"],
  ["checks", "rate", "default"],
];

export function openMetrics(): Metrics {
  const metrics: Metrics = new Map();
  for (const [name, type, contains] of BUILT_IN) define(metrics, name, { type, contains });
  return metrics;
}

/** @throws as k6 does. Each VU defines all metrics anew, so the same one twice is none too many. */
export function define(
  metrics: Metrics,
  name: string,
  { type, contains }: Pick<Metric, "type" | "contains">,
): void {
  if (!NAME.test(name)) throw new Error(`invalid metric name: "${name}"`);
  const known = metrics.get(name);
  if (known === undefined) {
    metrics.set(name, { type, contains, tags: {}, samples: [], thresholds: [] });
  } else if (known.type !== type || known.contains !== contains) {
    throw new Error(`metric "${name}" exists as another type`);
  }
}

/** @throws when a threshold could never be asked: k6 then ends before it has begun. */
export function setThresholds(metrics: Metrics, thresholds: Record<string, string[]>): void {
  for (const [name, expressions] of Object.entries(thresholds)) {
    const [parentName, definition] = name.split("{", 2) as [string, string | undefined];
    const parent = metrics.get(parentName);
    if (parent === undefined) throw new Error(`no metric "${parentName}" exists, for "${name}"`);
    const tags = definition === undefined ? {} : tagsOf(name, definition);
    const metric = definition === undefined ? parent : { ...parent, tags, samples: [] };
    metric.thresholds = expressions.map((source) => parse(source, parent.type));
    metrics.set(name, metric);
  }
}

function tagsOf(name: string, definition: string): Tags {
  if (!definition.endsWith("}")) throw new Error(`"${name}" does not end in a bracket`);
  const pairs = definition.slice(0, -1).split(",");
  return Object.fromEntries(
    pairs.map((pair) => {
      const [, key, value] = /^([\w-]+):([\w./-]+)$/.exec(pair) ?? [];
      if (key === undefined) throw new Error(`"${pair}" in "${name}" is not key:value`);
      return [key, value!];
    }),
  );
}

function parse(source: string, type: MetricType): Threshold {
  const [, aggregate, operator, limit] = EXPRESSION.exec(source) ?? [];
  if (aggregate === undefined) throw new Error(`not a threshold: "${source}"`);
  if (!AGGREGATES[type].test(aggregate))
    throw new Error(`a ${type} has no ${aggregate}: "${source}"`);
  return { source, aggregate, operator: operator as Threshold["operator"], limit: Number(limit) };
}

/** @throws when it is no sample: k6 would drop it with a warning. */
export function add(metrics: Metrics, name: string, sample: { value: unknown; tags: Tags }): void {
  const { value, tags } = sample;
  const number = typeof value === "boolean" ? Number(value) : value;
  if (typeof number !== "number" || !Number.isFinite(number)) {
    throw new Error(`${name}: ${String(value)} is not a sample`);
  }
  for (const [tag, content] of Object.entries(tags)) {
    if (typeof content !== "string") throw new Error(`${name}: the tag ${tag} is not a string`);
  }
  for (const [own, metric] of metrics) {
    const isOurs = own === name || own.startsWith(`${name}{`);
    const matches = Object.entries(metric.tags).every(([tag, content]) => tags[tag] === content);
    if (isOurs && matches) metric.samples.push(number);
  }
}

/** Without a sample everything is 0, but for a rate, which is none: no threshold on it holds. */
export function valueOf({ type, samples }: Metric, aggregate: string, durationMs: number): number {
  const total = samples.reduce((sum, sample) => sum + sample, 0);
  switch (aggregate) {
    case "count":
      return total;
    case "rate":
      return type === "counter" ? total / (durationMs / 1000) : total / samples.length;
    case "value":
      return samples.at(-1) ?? 0;
    case "avg":
      return samples.length === 0 ? 0 : total / samples.length;
    case "min":
      return samples.length === 0 ? 0 : Math.min(...samples);
    case "max":
      return samples.length === 0 ? 0 : Math.max(...samples);
    case "med":
      return percentile(samples, 50);
    default:
      return percentile(samples, Number(/[\d.]+/.exec(aggregate)![0]));
  }
}

function percentile(samples: readonly number[], percent: number): number {
  const sorted = samples.toSorted((one, other) => one - other);
  return sorted[Math.ceil((percent / 100) * sorted.length) - 1] ?? 0;
}

export function holds(metric: Metric, threshold: Threshold, durationMs: number): boolean {
  const seen = valueOf(metric, threshold.aggregate, durationMs);
  return OPERATORS[threshold.operator](seen, threshold.limit);
}
