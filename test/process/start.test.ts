import { execFile } from "node:child_process";
import { once } from "node:events";
import { cp, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";

import { expect, test } from "vitest";

import { ROOT } from "../../scripts/local-service.ts";
import {
  expectNoProcessLeft,
  expectNothingLeft,
  type Run,
  runScript,
  temporaryDirectory,
  until,
  untilPrinted,
} from "./run-script.ts";

// All at once: most of what they do is wait for processes to start.

test.concurrent("the service starts with the demo accounts and stops without a trace, twice in a row", async (context) => {
  // Goal: what a newcomer does first: start it, paste the curl, paste it again, Ctrl-C; and the same the next day.
  const directory = await temporaryDirectory(context);
  const args = ["--port", "0", "--persist-to", join(directory, "state")];

  const first = runScript(context, { script: "start.ts", args, tmpDir: directory });
  const curl = await printedCurl(first);
  const order = await answerTo(curl);
  const retry = await answerTo(curl);
  first.child.process.kill("SIGINT");

  expect(order.head).toMatch(/^HTTP\/1\.1 201 /);
  expect(order.head).toMatch(/^idempotent-replayed: false$/m);
  expect(order.head).toMatch(/^server-timing: d1;/m);
  expect(retry.head).toMatch(/^idempotent-replayed: true$/m);
  expect(retry.body).toBe(order.body);
  expect(await first.child.ended).toBe(0);
  await expectNothingLeft(first, ["state"]);

  const second = runScript(context, { script: "start.ts", args, tmpDir: directory });
  const elsewhere = (await printedCurl(second)).match(/http:\S+/)![0];
  const nextDay = await answerTo(curl.replace(/http:\S+/, elsewhere));
  second.child.process.kill("SIGTERM");

  expect(nextDay.head).toMatch(/^idempotent-replayed: true$/m);
  expect(nextDay.body).toBe(order.body);
  expect(await second.child.ended).toBe(0);
  await expectNothingLeft(second, ["state"]);
});

test.concurrent("a taken port is one clear sentence, before anything else has happened", async (context) => {
  // Goal: the commonest way for a start to fail is understood at once, and touches nothing.
  const squatter = createServer().listen(0, "127.0.0.1");
  context.onTestFinished(() => void squatter.close());
  await once(squatter, "listening");
  const { port } = squatter.address() as AddressInfo;
  const directory = await temporaryDirectory(context);

  const args = ["--port", String(port), "--persist-to", join(directory, "state")];
  const run = runScript(context, { script: "start.ts", args, tmpDir: directory });

  expect(await run.child.ended).toBe(1);
  expect(run.child.output()).toMatch(/^Port \d+ on 127\.0\.0\.1 is taken: [^\n]+\n$/);
  expect(run.child.output()).toContain(`Port ${port} `);
  expect(await readdir(directory)).toEqual([]);
});

test.concurrent("wrong settings are listed all at once, and nothing goes on running", async (context) => {
  // Goal: one look says everything that must be changed; wrangler's and workerd's stacks do not hide it.
  const directory = await temporaryDirectory(context);
  const wrong = ["PENDING_TTL_MS:5", "SWEEP_BATCH_SIZE:many", "IDEMPOTENCY_FINGERPRINT:md5"];
  const settings = wrong.flatMap((setting) => ["--var", setting]);

  const args = ["--port", "0", "--persist-to", join(directory, "state"), ...settings];
  const run = runScript(context, { script: "start.ts", args, tmpDir: directory });

  expect(await run.child.ended).toBe(1);
  const [, ...problems] = run.child.output().trimEnd().split("\n");
  expect(problems.map((problem) => problem.split(": ")[0])).toEqual([
    "Wrong settings:",
    "  SWEEP_BATCH_SIZE",
    "  IDEMPOTENCY_FINGERPRINT",
    "  PENDING_TTL_MS",
  ]);
  await expectNoProcessLeft(run);
});

test.concurrent("what is edited is served as it is saved, and a slip on the way stops nothing", async (context) => {
  // Goal: who forks it sees what they write, without a thought to the process that serves it.
  const directory = await temporaryDirectory(context);
  const root = join(directory, "fork");
  const served = ["src", "scripts", "drizzle", "seeds", "public", "wrangler.toml", "package.json"];
  for (const name of served) await cp(join(ROOT, name), join(root, name), { recursive: true });
  await symlink(join(ROOT, "node_modules"), join(root, "node_modules"));
  const source = join(root, "src/app.ts");
  const original = await readFile(source, "utf8");
  const saying = (word: string) => original.replace('{ docs: "/docs",', `{ docs: "${word}",`);

  const args = ["--port", "0", "--persist-to", join(directory, "state")];
  const run = runScript(context, { script: "start.ts", args, tmpDir: directory, root });
  const url = /http:\S+(?=\/orders)/.exec(await printedCurl(run))![0];
  // While the Worker is exchanged, a request may be refused, cut off or left hanging: it is asked again.
  const expectServed = async (word: string) => {
    let page = "";
    await until(async () => {
      const signal = AbortSignal.timeout(5_000);
      page = await fetch(url, { signal })
        .then((answer) => answer.text())
        .catch(String);
      return page.includes(`"docs":"${word}"`);
    });
    expect(page).toContain(`"docs":"${word}"`);
  };
  await writeFile(source, saying("first"));
  await expectServed("first");
  await writeFile(source, `${original} =`);
  await untilPrinted(run, "Build failed");
  await writeFile(source, saying("second"));
  await expectServed("second");
  run.child.process.kill("SIGINT");
  expect(await run.child.ended).toBe(0);
});

async function printedCurl(run: Run): Promise<string> {
  await untilPrinted(run, "}]}'");
  return /^curl [^]*}]}'$/m.exec(run.child.output())![0];
}

async function answerTo(curl: string): Promise<{ head: string; body: string }> {
  const { stdout } = await promisify(execFile)("sh", ["-c", curl]);
  const [head, body] = stdout.replaceAll("\r", "").split("\n\n") as [string, string];
  return { head, body };
}
