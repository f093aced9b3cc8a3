import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { ROOT } from "../../scripts/local-service.ts";
import { expectNothingLeft, runScript, temporaryDirectory } from "./run-script.ts";

// Goal: the benchmark measures what it says, and docs/performance.md has the figures that are the same everywhere. Its times
// are looked at by nobody here.

test("npm run bench counts what docs/performance.md says that a request costs", async (context) => {
  const tmpDir = await temporaryDirectory(context);
  const run = runScript(context, { script: "bench.ts", args: ["--quick"], tmpDir });
  const exitCode = await run.child.ended;

  expect(run.child.output()).toContain("| goal | measured |");
  expect(exitCode).toBe(0);
  const page = readFileSync(join(ROOT, "docs/performance.md"), "utf8");
  expect(costsIn(run.child.output())).toEqual(costsIn(page));
  expect(costsIn(page)).toContain("| protected, fresh | 2 | 7 | 7.00 |");
  await expectNothingLeft(run);
});

/** The rows of the table of costs: a name, and three plain figures. */
function costsIn(text: string): string[] {
  return [...text.matchAll(/^\| [a-z, ]+ \| (?:\d+|–) \| [\d.]+ \| [\d.]+ \|$/gm)].map(
    ([row]) => row,
  );
}
