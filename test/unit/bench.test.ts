import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { expect, test } from "vitest";

import type { Variant } from "../../scripts/bench/experiments.ts";
import { plantedKey } from "../../scripts/bench/protocol.ts";
import { interleave, inverse, ratioOf } from "../../scripts/bench/ratio.ts";
import { publish, type Results } from "../../scripts/bench/report.ts";
import { ROOT } from "../../scripts/local-service.ts";
import { temporaryDirectory } from "../process/run-script.ts";

// Goal: what the benchmark says of its measures is true of them. That they are of the service, ../process/bench.test.ts shows.

test("rounds take every measure once, begin with another one each, and the first is not counted", async () => {
  const taken: string[] = [];
  let clock = 0;
  const measure = (name: string) => async () => {
    taken.push(name);
    return ++clock;
  };

  const seen = await interleave(2, { a: measure("a"), b: measure("b"), c: measure("c") });

  expect(taken.join("")).toBe("abcbcacab");
  expect(seen).toEqual({ a: [6, 8], b: [4, 9], c: [5, 7] });
});

test("a ratio is the median of the rounds', and its spread their middle half", () => {
  const measured = [10, 40, 90, 160, 250];

  // 10, 20, 30, 40, 50: one slow round moves neither end.
  expect(ratioOf(measured, [1, 2, 3, 4, 5])).toEqual({ median: 30, low: 20, high: 40 });
  expect(ratioOf([2, 1, 4, 3], [1, 1, 1, 1])).toEqual({ median: 2.5, low: 1.75, high: 3.25 });
  expect(inverse({ median: 2, low: 1, high: 4 })).toEqual({ median: 0.5, low: 0.25, high: 1 });
});

test("planted keys are all different, and spread over the whole table", () => {
  const keys = Array.from({ length: 100_000 }, (_, number) => plantedKey(number));
  const firstDigits = new Set(keys.slice(0, 100).map((key) => key[0]));

  expect(new Set(keys).size).toBe(keys.length);
  expect(firstDigits.size).toBe(16);
});

test("what the README says of it is what was published", async () => {
  const [page, readme] = await Promise.all(
    ["docs/performance.md", "README.md"].map((path) => readFile(join(ROOT, path), "utf8")),
  );
  /** Medians of the latency with the database far away, by their rows. */
  const latency = page!.slice(
    page!.indexOf("<!-- latency -->"),
    page!.indexOf("<!-- /latency -->"),
  );
  const medians = Object.fromEntries(
    [...latency.matchAll(/^\| (.+?) \| .+? \| ([\d.]+) \(.+?\) \|$/gm)].map(([, name, median]) => [
      name,
      Number(median),
    ]),
  );

  expect(readme).toContain(
    `order\ntakes ${medians["protected, fresh"]} times as long for it, while the usual ways take half as long again or twice as long`,
  );
  const usual = ["select, then insert", "two transactions", "claim without a fence"];
  expect(usual.map((name) => Math.round(2 * medians[name]!) / 2)).toEqual([2, 2, 1.5]);
});

/** Twice as slow as the unprotected, three times, and so on, in the order of the table. */
const VARIANTS: Variant[] = [
  "unprotected",
  "protected, fresh",
  "protected, replay",
  "protected, in progress",
  "select, then insert",
  "two transactions",
  "claim without a fence",
];
const durations = () =>
  Object.fromEntries(VARIANTS.map((variant, i) => [variant, [i + 1]])) as Record<Variant, number[]>;
const speeds = () => ({ inTurn: durations(), atOnce: durations() });
const RESULTS: Results = {
  costs: Object.fromEntries(
    VARIANTS.map((variant, i) => [variant, { roundTrips: i, rowsWritten: 10 * i }]),
  ) as Results["costs"],
  variants: { near: speeds(), far: speeds() },
  sizes: [
    { rows: 1_000, fresh: [10], replay: [10] },
    { rows: 1_000_000, fresh: [11], replay: [13] },
  ],
  sweeps: {
    alone: { runs: 2, ms: 100, evicted: 3_000, rowsWritten: 7_500 },
    orderMs: 5,
    beside: {
      "nothing to sweep": [10],
      "swept by requests": [15],
      "swept by the cron, too": [20],
    },
  },
};

test("what was measured is published in its places, and a goal that was missed says so", async (context) => {
  const docs = await temporaryDirectory(context);
  await mkdir(join(docs, "performance"));
  const source = await readFile(join(ROOT, "docs/performance.md"), "utf8");
  await writeFile(join(docs, "performance.md"), source);

  await publish(RESULTS, docs);
  await publish(RESULTS, docs);

  const page = await readFile(join(docs, "performance.md"), "utf8");
  const proseOf = (text: string) => text.replaceAll(/^\|.*\n/gm, "");
  expect(proseOf(page)).toBe(proseOf(source));
  expect(page).toContain("| protected, fresh | 1 | 10 | 10.00 |");
  expect(page).toContain("| one key, evicted by the cron | – | 2.50 | 2.50 |");
  expect(page).toContain("| two transactions | 6.00 (6.00–6.00) | 6.00 (6.00–6.00) |");
  expect(page).toContain("| two transactions | 0.17 (0.17–0.17) | 0.17 (0.17–0.17) |");
  expect(page).toContain("| 1,000,000 | 1.10 (1.10–1.10) | 1.30 (1.30–1.30) |");
  expect(page).toContain("| swept by the cron, too | 2.00 (2.00–2.00) |");
  expect(page).toContain("| in a run | 1,500 |");
  expect(page).toContain("| in the time that a fresh order takes | 150 |");
  expect(page).toContain("| in a second, on that machine | 30,000 |");
  const goals = page.match(/\| (met|missed) \|/g);
  expect(goals).toEqual(
    ["missed", "missed", "missed", "missed", "met", "missed"].map((word) => `| ${word} |`),
  );
  const latency = await readFile(join(docs, "performance/latency.svg"), "utf8");
  expect(latency).toMatch(/^<svg [^]*two transactions[^]*<\/svg>\n$/);
  expect(await readFile(join(docs, "performance/sizes.svg"), "utf8")).toContain(
    "rows in the ledger",
  );
});
