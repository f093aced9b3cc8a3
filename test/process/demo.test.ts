import { expect, test } from "vitest";

import { expectNothingLeft, runScript, temporaryDirectory, untilPrinted } from "./run-script.ts";

// Both at once: most of what they do is wait for processes to start.

test.concurrent("the demo proves every claim, says so by its exit code and leaves nothing behind", async (context) => {
  // Goal: `npm run demo` is a proof that anybody can run, as often as they like.
  const run = runScript(context, {
    script: "demo.ts",
    tmpDir: await temporaryDirectory(context),
  });
  const code = await run.child.ended;

  const output = run.child.output();
  const rows = output.split("\n").filter((line) => / {2}(ok|FAILED)$/.test(line));
  expect(rows.map((row) => row.split("  ")[0])).toEqual([
    "One order, sent 200 times at once, is executed once",
    "After retries every sender has the same bytes",
    "It left one order, stock down once",
    "The same key with another body is refused",
    "The same key from two accounts is two keys",
    "An owner stalls: a retry is told to wait",
    "Once the lease has ended, a retry takes over",
    "The stalled owner goes on and cannot commit",
    "Both together left one order, stock down once",
    "50 payments of one order at once, under one key",
    "50 payments of one order at once, under 50 keys",
    "The owner of a payment stalls: a retry takes over",
    "The stalled owner holds a success and cannot commit",
    "The provider charges, and its reply is lost",
    "In the database: keys sent = keys completed = orders",
    "The audit of the database and the provider's books",
  ]);
  expect(rows.filter((row) => !row.endsWith("  ok"))).toEqual([]);
  expect(output.trimEnd().split("\n").at(-1)).toContain("All 16 claims hold");
  // Not a terminal, so no codes for one.
  expect(run.child.stdout()).not.toContain("\u001B");
  expect(code).toBe(0);
  await expectNothingLeft(run);
});

test.concurrent("a demo that is interrupted leaves nothing behind and does not claim to have proved anything", async (context) => {
  // Goal: Ctrl-C at a bad moment, with the service up and 200 requests under way.
  const run = runScript(context, {
    script: "demo.ts",
    tmpDir: await temporaryDirectory(context),
  });
  await untilPrinted(run, "Sending one order");

  run.child.process.kill("SIGINT");

  expect(await run.child.ended).toBe(130);
  expect(run.child.output()).not.toContain("claims hold");
  await expectNothingLeft(run);
});
