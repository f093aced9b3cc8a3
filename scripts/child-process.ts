import { type ChildProcess, spawn, type StdioOptions } from "node:child_process";
import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";

/** How long a child may take to end in order before it is killed, ms. wrangler takes 50. */
const STOP_GRACE_MS = 5_000;
/** How much of a child's output is kept for error messages, characters. */
const OUTPUT_LIMIT = 64 * 1024;

/** How soon a process notices that its parent has gone, ms. */
const PARENT_CHECK_MS = 250;

// A parent that was killed can stop nobody, so each child looks whether it still has the one that started it. Which one
// that is must come from the parent: by the time a child can ask, it may be somebody else's. wrangler passes the option
// and the variable on to the process in which it does its work. A worker thread has its process to look.
const END_WITH_PARENT = `data:text/javascript,${encodeURIComponent(`
  import { isMainThread } from "node:worker_threads";
  if (isMainThread) {
    const parent = Number(process.env.PARENT_PID);
    process.env.PARENT_PID = process.pid;
    setInterval(() => process.ppid === parent || process.kill(process.pid, "SIGTERM"), ${PARENT_CHECK_MS}).unref();
  }
`)}`;

/** A program that this process has started and does not leave behind, nor anything that it starts in turn. */
export interface Child {
  /** For its streams and messages. */
  process: ChildProcess;
  /** Both streams in order of arrival, without terminal codes; only the newest 64 KiB. */
  output(): string;
  /** Standard output alone, as long as it fits 64 KiB. */
  stdout(): string;
  hasEnded(): boolean;
  /** Its exit code, or 128 and the number of the signal that ended it. Its streams are complete by then. */
  ended: Promise<number>;
  /** Asks it to end, and after five seconds ends it and all that it started. Resolves once it is gone. */
  stop(this: void): Promise<void>;
}

const running = new Set<Child>();
let isClosing = false;

interface Surroundings {
  cwd: string;
  /** Beside those of this process. */
  env: Record<string, string>;
}

/**
 * Starts a Node program, which ends by itself should this process be killed.
 *
 * @throws after `stopAll`, so that work which is still under way starts nothing anew.
 */
export function startChild(
  script: string,
  args: readonly string[],
  { cwd, env }: Surroundings,
): Child {
  return startProgram(process.execPath, ["--import", END_WITH_PARENT, script, ...args], {
    cwd,
    env: { ...env, PARENT_PID: String(process.pid) },
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
}

/**
 * Starts any other program. `ended` rejects when there is none of that name.
 *
 * @throws as `startChild`.
 */
export function startProgram(
  command: string,
  args: readonly string[],
  { cwd, env, stdio }: Surroundings & { stdio: StdioOptions },
): Child {
  if (isClosing) throw new Error("stopping: no new process is started");
  const spawned = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio,
    // A process group of its own, by which whatever it leaves behind can be found. It also keeps a Ctrl-C from
    // reaching it before this process has decided what to do.
    detached: true,
  });
  let output = "";
  let stdout = "";
  const keep = (kept: string, chunk: string) => (kept + chunk).slice(-OUTPUT_LIMIT);
  spawned.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
    output = keep(output, chunk);
    stdout = keep(stdout, chunk);
  });
  spawned.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
    output = keep(output, chunk);
  });
  spawned.once("exit", () => killGroup(spawned));
  const ended = new Promise<number>((resolve, reject) => {
    spawned.once("error", reject);
    spawned.once("close", (code, signal) => resolve(code ?? exitCodeOf(signal!)));
  }).finally(() => running.delete(child));

  const child: Child = {
    process: spawned,
    output: () => stripVTControlCharacters(output),
    stdout: () => stdout,
    hasEnded: () => spawned.exitCode !== null || spawned.signalCode !== null,
    ended,
    stop: async () => {
      spawned.kill("SIGTERM");
      await Promise.race([ended, sleep(STOP_GRACE_MS, undefined, { ref: false })]);
      killGroup(spawned);
      await ended;
    },
  };
  running.add(child);
  return child;
}

/** Stops every child there is, and lets none begin after it. */
export async function stopAll(): Promise<void> {
  isClosing = true;
  await Promise.all([...running].map((child) => child.stop()));
}

/** Resolves when somebody wants this process to end: Ctrl-C, `kill`, a closed terminal. Asking again changes nothing. */
export function untilInterrupted(): Promise<NodeJS.Signals> {
  const parent = process.ppid;
  const isAdopted = parent === 1 && !isProcess1Npm();
  return new Promise((resolve) => {
    // `on`, not `once`: npm passes on a Ctrl-C that the terminal has sent already, and the default would end us half-way.
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, resolve);
    // npm answers a SIGTERM by ending only the shell between itself and this process.
    if (process.env["npm_lifecycle_event"] === undefined) return;
    const look = () => (process.ppid === parent && !isAdopted) || resolve("SIGTERM");
    look();
    setInterval(look, PARENT_CHECK_MS).unref();
  });
}

/** Process 1 adopts whoever has lost its parent. Only in a container can it be what started us: npm, or a Node program. */
function isProcess1Npm(): boolean {
  try {
    return /npm|node/.test(readFileSync("/proc/1/cmdline", "utf8"));
  } catch {
    return false;
  }
}

/** What shells report for a process that a signal ended. */
export function exitCodeOf(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

function killGroup({ pid }: ChildProcess): void {
  try {
    process.kill(-pid!, "SIGKILL");
  } catch {
    // Nobody is left, which is what was wanted.
  }
}
