import { runScenario } from "./executors.ts";
import {
  holds,
  type Metric,
  type Metrics,
  openMetrics,
  setThresholds,
  valueOf,
} from "./metrics.ts";
import { type Options, readOptions } from "./options.ts";
import { startVu, type Vu } from "./vu.ts";

export type Ended =
  | { kind: "done"; summary: Record<string, unknown>; failed: string[]; thrown: Thrown[] }
  /** The script's options are wrong, or the script cannot be loaded. */
  | { kind: "config"; error: unknown };

interface Thrown {
  part: "setup" | "iteration" | "teardown" | "handleSummary";
  error: unknown;
}

interface Settings {
  env: Record<string, string>;
  stopped: AbortSignal;
}

/** The life of a test: https://grafana.com/docs/k6/latest/using-k6/test-lifecycle/ */
export async function runTest(script: string, settings: Settings): Promise<Ended> {
  const metrics = openMetrics();
  let ids = 0;
  const start = () => startVu(script, { id: ids++, env: settings.env, metrics });

  let options: Options;
  let vus: Record<string, Vu[]>;
  try {
    const first = await start();
    options = readOptions(first.exports["options"]);
    setThresholds(metrics, options.thresholds);
    requireFunctions(first, options);
    vus = await startVus(options, start);
  } catch (error) {
    return { kind: "config", error };
  }
  const thrown: Thrown[] = [];
  /** As in k6, the run goes on to its summary, whatever is thrown before. */
  const attempt = async (part: Exclude<Thrown["part"], "iteration">, data?: unknown) => {
    try {
      return await runPart(await start(), part, data);
    } catch (error) {
      thrown.push({ part, error });
      return undefined;
    }
  };
  const startedAt = performance.now();
  const data = await attempt("setup");
  if (thrown.length === 0) {
    const onThrow = (error: unknown) => void thrown.push({ part: "iteration", error });
    await Promise.all(
      Object.entries(options.scenarios).map(([name, scenario]) => {
        const load = { name, data, metrics, stopped: settings.stopped, onThrow };
        return runScenario(scenario, { ...load, vus: vus[name]! });
      }),
    );
    await attempt("teardown", data);
  }
  const durationMs = performance.now() - startedAt;
  const summary = await attempt("handleSummary", summaryOf(metrics, { durationMs, data }));
  return {
    kind: "done",
    summary: (summary ?? {}) as Record<string, unknown>,
    failed: failedOf(metrics, durationMs),
    thrown,
  };
}

function requireFunctions({ exports }: Vu, { scenarios }: Options): void {
  const needed = [
    "setup",
    "teardown",
    "handleSummary",
    ...Object.values(scenarios).map(({ exec }) => exec),
  ];
  const missing = needed.filter((name) => typeof exports[name] !== "function");
  if (missing.length > 0) throw new Error(`the script exports no function ${missing.join(", ")}`);
}

async function startVus(
  { scenarios }: Options,
  start: () => Promise<Vu>,
): Promise<Record<string, Vu[]>> {
  const started: Record<string, Vu[]> = {};
  for (const [name, scenario] of Object.entries(scenarios)) {
    const vus: Vu[] = [];
    for (let number = 0; number < scenario.vus; number++) vus.push(await start());
    started[name] = vus;
  }
  return started;
}

/** What goes in and what comes out passes through JSON, as it does in k6. */
async function runPart(vu: Vu, name: string, data: unknown): Promise<unknown> {
  const part = vu.exports[name] as (data: unknown) => unknown;
  const made: unknown = await part(vu.give(data));
  return made === undefined ? undefined : (JSON.parse(JSON.stringify(made)) as unknown);
}

function failedOf(metrics: Metrics, durationMs: number): string[] {
  return [...metrics].flatMap(([name, metric]) =>
    metric.thresholds
      .filter((threshold) => !holds(metric, threshold, durationMs))
      .map(
        ({ source, aggregate }) =>
          `${name} ${source}, but ${valueOf(metric, aggregate, durationMs)}`,
      ),
  );
}

const AGGREGATES: Record<Metric["type"], string[]> = {
  counter: ["count", "rate"],
  gauge: ["value"],
  rate: ["rate"],
  trend: ["avg", "min", "med", "max", "p(90)", "p(95)"],
};

/** https://grafana.com/docs/k6/latest/results-output/end-of-test/custom-summary/#summary-data-reference */
function summaryOf(metrics: Metrics, { durationMs, data }: { durationMs: number; data: unknown }) {
  const seen = [...metrics].filter(
    ([, { samples, thresholds }]) => samples.length + thresholds.length > 0,
  );
  const entries = seen.map(([name, metric]) => {
    const { type, contains, thresholds } = metric;
    // Here, other than in a threshold, a rate without a sample is 0.
    const values = AGGREGATES[type].map((aggregate) => [
      aggregate,
      valueOf(metric, aggregate, durationMs) || 0,
    ]);
    const asked = thresholds.map((threshold) => [
      threshold.source,
      { ok: holds(metric, threshold, durationMs) },
    ]);
    const described = { type, contains, values: Object.fromEntries(values) as object };
    return [
      name,
      asked.length === 0
        ? described
        : { ...described, thresholds: Object.fromEntries(asked) as object },
    ];
  });
  return {
    root_group: { name: "", path: "", id: "", groups: [], checks: [] },
    options: { summaryTrendStats: AGGREGATES.trend, summaryTimeUnit: "", noColor: true },
    state: { isStdOutTTY: false, isStdErrTTY: false, testRunDurationMs: durationMs },
    metrics: Object.fromEntries(entries) as object,
    setup_data: data,
  };
}
