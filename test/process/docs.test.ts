import { execFile, execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

import { expect, onTestFinished, test } from "vitest";

import {
  LOCAL_OPERATOR_TOKEN,
  prepareDatabase,
  ROOT,
  startLocalService,
  WRANGLER_ENV,
} from "../../scripts/local-service.ts";
import { TOKEN } from "../../src/bearer.ts";
import { configOf } from "../../src/env.ts";
import { sha256Hex } from "../../src/idempotency/sha256.ts";
import { temporaryDirectory } from "./run-script.ts";

// Goal: what the README and the guides tell a reader to paste is so.

const PAGES = ["README.md", "docs/api.md", "docs/operating.md"];
const WRANGLER = join(ROOT, "node_modules/wrangler/bin/wrangler.js");

/** The code blocks of one kind, page by page. */
function blocksOf(info: string): string[] {
  const text = PAGES.map(read).join("\n");
  const blocks = [...text.matchAll(/^```(.*)\n([^]*?)^```$/gm)];
  return blocks.filter(([, is]) => is === info).map(([, , block]) => block!);
}

test("every curl answers what stands below it", async (context) => {
  const persistTo = await temporaryDirectory(context);
  await prepareDatabase({ persistTo });
  const vars = { ADMIN_TOKEN: LOCAL_OPERATOR_TOKEN };
  const { url, child } = await startLocalService({ persistTo, vars });
  onTestFinished(() => child.stop());

  const seen = blocksOf("sh curl").map((block) => {
    const command = block.replaceAll("http://127.0.0.1:8787", url);
    const answer = execFileSync("bash", ["-c", command], { encoding: "utf8", stdio: "pipe" });
    const promised = block.split("\n").filter((line) => line.startsWith("# "));
    return promised.map((line) => ({
      line,
      isKept: answer.toLowerCase().includes(line.slice(2).toLowerCase()),
    }));
  });

  expect(seen).toHaveLength(13);
  expect(seen.filter((lines) => lines.length === 0)).toEqual([]);
  expect(seen.flat().filter(({ isKept }) => !isKept)).toEqual([]);
});

test("every command that needs an account exists, with each of its options", async () => {
  const commands = blocksOf("sh operator").flatMap((block) => block.trim().split("\n"));
  expect(commands.length).toBeGreaterThan(8);
  expect(commands.filter((command) => !command.startsWith("npx wrangler "))).toEqual([]);

  for (const command of commands) {
    const words = command.split(" ").slice(2);
    // What the words name stands in the head line of the help: `wrangler d1 migrations apply <database>`.
    const { stdout } = await wrangler([...words.filter((word) => /^[\w-]+$/.test(word)), "--help"]);
    const head = stdout.split("\n").find((line) => line.startsWith("wrangler "))!;
    const named = head.split(" ").filter((word) => /^[\w-]+$/.test(word));
    expect(command).toContain(named.join(" "));
    expect(named.length).toBeGreaterThan(1);
    for (const [option] of command.matchAll(/ --[a-z-]+/g)) expect(stdout).toContain(option);
  }
});

test("the command that makes an account's key prints the hash by which the key is known", async () => {
  const [command] = blocksOf("sh account");
  const printed = execFileSync("bash", ["-c", command!], { cwd: ROOT, encoding: "utf8" });
  const { key, sha256, id } = JSON.parse(printed) as Record<string, string>;

  expect(await sha256Hex(key!)).toBe(sha256);
  expect(key).toMatch(TOKEN);
  expect(id).toMatch(/^acct_[\da-f]{8}-[\da-f]{4}-7/);
});

test("what would be deployed builds", async (context) => {
  const outdir = await temporaryDirectory(context);
  const { stdout } = await wrangler(["deploy", "--dry-run", "--outdir", outdir]);
  expect(stdout).toContain("--dry-run: exiting now.");
  expect(readFileSync(join(outdir, "index.js"), "utf8")).toContain("idempotency_fence_lost");
});

test("the retention that is promised to clients is the one that the sweep keeps to", () => {
  const [, hours] = /kept for \*\*at least (\d+) hours\*\* \(`RETENTION_MS`\)/.exec(
    read("docs/api.md"),
  )!;
  const [, seconds] = /at most (\d+) seconds \(`PENDING_TTL_MS`\)/.exec(read("docs/api.md"))!;
  const { retentionMs, pendingTtlMs } = configOf(deployedVars());
  expect(Number(hours) * 3_600_000).toBe(retentionMs);
  expect(Number(seconds) * 1000).toBe(pendingTtlMs);
});

function read(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** The settings that are deployed. */
function deployedVars(): Record<string, string> {
  const [, table] = /^\[vars\]\n([^]*?)^\[/m.exec(read("wrangler.toml"))!;
  return Object.fromEntries(
    [...table!.matchAll(/^(\w+) = "(.*)"$/gm)].map(([, name, value]) => [name, value]),
  );
}

function wrangler(args: readonly string[]) {
  const env = { ...process.env, ...WRANGLER_ENV };
  return promisify(execFile)(process.execPath, [WRANGLER, ...args], { cwd: ROOT, env });
}
