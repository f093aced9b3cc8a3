import parsePrometheusTextFormat from "parse-prometheus-text-format";
import { expect, test } from "vitest";

import { exposition, type Metric } from "../../src/operator/exposition.ts";
import { metricsOf } from "../../src/operator/metrics.ts";

const run = {
  id: 1,
  startedAt: 1_000,
  endedAt: 2_500,
  evicted: 7,
  batches: 1,
  isCaughtUp: true,
  lagMs: 0,
};
const figures = {
  evicted: 100,
  takeovers: 2,
  fencedOut: 1,
  counts: { countedAt: 3_000, pending: 4, completed: 5, released: 6, orphaned: 3, expired: 0 },
  oldestLiveAt: 1_500,
  lagMs: 250,
  runs: [{ ...run, id: 2, startedAt: 3_500, endedAt: null }, run],
  lastEndedRun: run,
  firstRunAt: run.startedAt,
  faults: [],
};
const nothing = {
  ...figures,
  counts: { ...figures.counts, countedAt: null },
  oldestLiveAt: null,
  runs: [],
  lastEndedRun: null,
  firstRunAt: null,
};

// https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
const LINE =
  /^(# HELP [a-z_]+ [^\n]+|# TYPE [a-z_]+ (counter|gauge)|[a-z_]+(\{[a-z_]+="([^"\\\n]|\\[\\"n])*"(,[a-z_]+="([^"\\\n]|\\[\\"n])*")*\})? -?\d+(\.\d+)?)$/;

test.each([
  ["known", figures],
  ["unknown", nothing],
])("every line is one of the format when all is %s, and the last one ends", (_, all) => {
  const lines = exposition(metricsOf(all)).split("\n");

  expect(lines.pop()).toBe("");
  expect(lines.filter((line) => !LINE.test(line))).toEqual([]);
});

test("a parser of the format finds every metric once, with its type, its help and its samples", () => {
  const parsed = parsePrometheusTextFormat(exposition(metricsOf(figures)));

  expect(parsed.map(({ name, type, help, metrics }) => [name, type, help, metrics.length])).toEqual(
    metricsOf(figures).map(({ name, type, help, samples }) => [
      name,
      type.toUpperCase(),
      help,
      samples.length,
    ]),
  );
  expect(parsed[0]!.metrics).toEqual([
    { labels: { status: "pending" }, value: "4" },
    { labels: { status: "completed" }, value: "5" },
    { labels: { status: "released" }, value: "6" },
  ]);
  expect(new Set(parsed.map(({ name }) => name)).size).toBe(parsed.length);
});

test("counters end in _total, and nothing else does", () => {
  const isTotal = ({ name }: Metric) => name.endsWith("_total");
  const isCounter = ({ type }: Metric) => type === "counter";
  const metrics = metricsOf(figures);

  expect(metrics.filter(isTotal)).toEqual(metrics.filter(isCounter));
  expect(metrics.filter(isCounter)).toHaveLength(3);
});

test("what is not known is left out, never 0", () => {
  const names = parsePrometheusTextFormat(exposition(metricsOf(nothing))).map(({ name }) => name);

  expect(names).toEqual([
    "idempotency_takeovers_total",
    "idempotency_fenced_out_total",
    "idempotency_evicted_total",
    "idempotency_eviction_lag_seconds",
    "idempotency_eviction_failing",
  ]);
});

test("help and labels survive whatever they hold", () => {
  const metric: Metric = {
    name: "odd",
    type: "gauge",
    help: 'a "quoted" \\ and\na new line',
    samples: [{ labels: { one: 'a"b\\c\nd', two: "{},=" }, value: 1.5 }],
  };

  const text = exposition([metric]);

  expect(text.split("\n")).toEqual([
    '# HELP odd a "quoted" \\\\ and\\na new line',
    "# TYPE odd gauge",
    'odd{one="a\\"b\\\\c\\nd",two="{},="} 1.5',
    "",
  ]);
  expect(parsePrometheusTextFormat(text)).toEqual([
    {
      name: "odd",
      type: "GAUGE",
      help: metric.help,
      metrics: [{ labels: metric.samples[0]!.labels, value: "1.5" }],
    },
  ]);
});
