import { expect, test } from "vitest";

import { expectNothingLeft, runScript, temporaryDirectory, untilPrinted } from "./run-script.ts";

// Both at once: most of what they do is wait for processes to start.

test.concurrent("a service that is killed under load loses nothing and does nothing twice", async (context) => {
  // Goal: SIGKILL the runtime under orders, payments, refunds and duplicates, restart it, retry every key to an answer,
  // and count at both ends. In one round of these wrangler dies too. `npm run chaos` has more rounds, and a fresh seed.
  const run = runScript(context, {
    script: "chaos.ts",
    args: ["--rounds", "8", "--seed", "1"],
    tmpDir: await temporaryDirectory(context),
  });
  const code = await run.child.ended;

  const output = run.child.output();
  const rows = output.split("\n").filter((line) => / {2}(ok|FAILED)$/.test(line));
  expect(rows.map((row) => row.split("  ")[0])).toEqual([
    "Kills cut requests off, and leases were taken over",
    "Every key that was sent has come to an answer",
    "Every order that a 201 named is there, as it was answered",
    "There is one order for each key with a 201, and no other",
    "One charge for each payment that succeeded, and no other",
    "The history of each key is that of one atomic operation",
    "The audit of the database and the provider's books",
  ]);
  expect(rows.filter((row) => !row.endsWith("  ok"))).toEqual([]);
  expect(output.match(/^round \d+: killed/gm)).toHaveLength(8);
  expect(output).toContain("killed the runtime and wrangler");
  expect(code).toBe(0);
  await expectNothingLeft(run);
});

test.concurrent("a run that is interrupted leaves nothing behind", async (context) => {
  const run = runScript(context, {
    script: "chaos.ts",
    args: ["--rounds", "8"],
    tmpDir: await temporaryDirectory(context),
  });
  await untilPrinted(run, "round 1: killed");

  run.child.process.kill("SIGINT");

  expect(await run.child.ended).toBe(130);
  await expectNothingLeft(run);
});
