import { readdir } from "node:fs/promises";

import { expect, test } from "vitest";

import { runScript, temporaryDirectory } from "./run-script.ts";

// Goal: what cannot be done as it was asked for is said in plain words, before anything has happened. (Of `npm run
// load` that is in ../load/load.test.ts.)

const UNKNOWN = /^Unknown option '--loud'/;

test.concurrent.for<[script: string, args: string[], said: RegExp]>([
  ["demo.ts", ["--loud"], UNKNOWN],
  ["chaos.ts", ["--loud"], UNKNOWN],
  ["chaos.ts", ["--rounds", "many"], /^--rounds many is not a whole number\.\n$/],
  ["bench.ts", ["--loud"], UNKNOWN],
  ["bench.ts", ["--quick", "--publish"], /^--quick is far too short [^\n]+\n$/],
  ["explore.ts", ["--loud"], UNKNOWN],
  ["explore.ts", ["--faults", "ten"], /^--faults must be a whole number from 0 to 9\n$/],
  ["explore.ts", ["--scenario", "none"], /^There is no scenario "none"\. There are:\n/],
  ["explore.ts", ["--replay", "0.1"], /^--replay needs --scenario: which one\?\n$/],
  ["explore.ts", ["--scenario", "orders", "--replay", "9"], /^There is no event 9 at this turn\n$/],
])("%s %j is refused", async ([script, args, said], context) => {
  const tmpDir = await temporaryDirectory(context);
  const run = runScript(context, { script, args, tmpDir });

  expect(await run.child.ended).toBe(2);
  expect(run.child.output()).toMatch(said);
  expect(await readdir(tmpDir)).toEqual([]);
});
