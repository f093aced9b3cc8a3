import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { startChild } from "../../scripts/child-process.ts";
import { ROOT } from "../../scripts/local-service.ts";

/** What Node needs for the stand-in: each VU is a world of its own. */
export const STAND_IN_NODE_OPTIONS =
  "--experimental-vm-modules --disable-warning=ExperimentalWarning";
export const STAND_IN = join(ROOT, "test/load/k6/main.ts");

export interface LessonRun {
  exitCode: number;
  output: string;
  /** The thresholds that did not hold, as `metric expression`. */
  failed: string[];
  /** What was measured, by metric and aggregate. */
  seen: (metric: string, aggregate: string) => number;
}

/** Runs a script of load-tests/ with the stand-in for k6. */
export async function runLesson(
  script: string,
  { url, directory, env }: { url: string; directory: string; env: Record<string, string> },
): Promise<LessonRun> {
  const summary = join(directory, "summary.json");
  const variables = Object.entries({ ...env, BASE_URL: url, SUMMARY: summary });
  const given = variables.flatMap((pair) => ["-e", pair.join("=")]);
  const run = startChild(STAND_IN, ["run", ...given, join(ROOT, "load-tests", script)], {
    cwd: directory,
    env: { NODE_OPTIONS: STAND_IN_NODE_OPTIONS },
  });
  const exitCode = await run.ended;
  const output = run.output();
  // Without a summary it did not come to its end: that is what there is to be said.
  const { metrics } = await readSummary(summary).catch(() => {
    throw new Error(`${script} ended with exit code ${exitCode}:\n${output}`);
  });
  const failed = Object.entries(metrics).flatMap(([name, { thresholds = {} }]) =>
    Object.entries(thresholds)
      .filter(([, { ok }]) => !ok)
      .map(([expression]) => `${name} ${expression}`),
  );
  const seen = (metric: string, aggregate: string) => metrics[metric]!.values[aggregate]!;
  return { exitCode, output, failed, seen };
}

interface Summary {
  metrics: Record<
    string,
    { values: Record<string, number>; thresholds?: Record<string, { ok: boolean }> }
  >;
}

async function readSummary(path: string): Promise<Summary> {
  return JSON.parse(await readFile(path, "utf8")) as Summary;
}
