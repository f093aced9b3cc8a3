import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { expect, type TestContext } from "vitest";

import { type Child, startChild } from "../../scripts/child-process.ts";
import { ROOT } from "../../scripts/local-service.ts";

/** Longest wait for anything, ms: many times what it takes, since other tests keep the machine busy. */
const LIMIT_MS = 100_000;
const POLL_MS = 25;

export interface Run {
  child: Child;
  tmpDir: string;
}

/** An empty directory, for one test. */
export async function temporaryDirectory({ onTestFinished }: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "idempotent-orders-test-"));
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }));
  return directory;
}

/**
 * Runs a script of this project as a process of its own, until it ends or the test does. Everything it starts inherits
 * `tmpDir`, by which it is found.
 */
export function runScript(
  { onTestFinished }: TestContext,
  {
    script,
    args = [],
    tmpDir,
    root = ROOT,
  }: { script: string; args?: readonly string[]; tmpDir: string; root?: string },
): Run {
  const env = { TMPDIR: tmpDir };
  const child = startChild(join(root, "scripts", script), args, { cwd: root, env });
  onTestFinished(() => child.stop());
  return { child, tmpDir };
}

/** @throws with all that was printed, when the script ends or the limit passes first. */
export async function untilPrinted({ child }: Run, text: string): Promise<void> {
  const isPrinted = () => child.output().includes(text);
  await until(() => isPrinted() || child.hasEnded());
  if (!isPrinted()) throw new Error(`It never printed "${text}", but:\n${child.output()}`);
}

/** Asserts that neither a process nor a temporary file of the run is left, except those named. */
export async function expectNothingLeft(run: Run, kept: string[] = []): Promise<void> {
  await expectNoProcessLeft(run);
  expect(await readdir(run.tmpDir)).toEqual(kept);
}

export async function expectNoProcessLeft({ tmpDir }: Pick<Run, "tmpDir">): Promise<void> {
  await until(async () => (await processesOf(tmpDir)).length === 0);
  expect(await processesOf(tmpDir)).toEqual([]);
}

/** Resolves when the condition holds, or when it has had its time. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + LIMIT_MS;
  while (!(await condition()) && Date.now() < deadline) await sleep(POLL_MS);
}

/** Command lines of the live processes that were started with this TMPDIR or one inside it. Reads Linux's /proc. */
async function processesOf(tmpDir: string): Promise<string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  // A process may go while it is looked at, and one that is dead but not reaped has no environment.
  const read = (pid: string, file: string) =>
    readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "");
  const found = await Promise.all(
    pids.map(async (pid) => {
      const isOfRun = (await read(pid, "environ")).includes(`\0TMPDIR=${tmpDir}`);
      return isOfRun ? [(await read(pid, "cmdline")).replaceAll("\0", " ")] : [];
    }),
  );
  return found.flat();
}
