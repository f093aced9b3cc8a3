import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { type Child, startChild } from "./child-process.ts";

export const ROOT = join(import.meta.dirname, "..");
// Its JavaScript, run by the Node that runs this script: no shell, and no older Node that may come first on the PATH.
const WRANGLER = join(ROOT, "node_modules/wrangler/bin/wrangler.js");

/** The operator's. Public, as the demo accounts' keys are: a service that takes it listens on this machine only. */
export const LOCAL_OPERATOR_TOKEN = "local-operator-token";

/** wrangler dev is ready in 2 s; a busy machine may take several times as long. */
const START_LIMIT_MS = 60_000;
const HEALTH_LIMIT_MS = 5_000;
const HEALTH_PAUSE_MS = 50;

export const WRANGLER_ENV = {
  // Migrates without asking.
  CI: "1",
  // Nothing leaves the machine: no location for `request.cf`, no telemetry, and with the banner no look-up of versions.
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_HIDE_BANNER: "true",
  // wrangler is 15 MB of JavaScript, started several times: this saves it a quarter of its start.
  NODE_COMPILE_CACHE: join(ROOT, "node_modules/.cache/node"),
  // A failure is reported here, not in a file in the home directory.
  WRANGLER_WRITE_LOGS: "false",
};

export interface Place {
  /** Directory of the local database. Without it, wrangler's own: `.wrangler/state`. */
  persistTo?: string | undefined;
  /** Directory for wrangler's temporary files. Without it, the system's. */
  tmpDir?: string | undefined;
}

export interface ServiceOptions extends Place {
  ip?: string;
  /** 0, the default, lets the system choose one that is free. */
  port?: number;
  /** Settings that replace those in wrangler.toml, for example `{ PENDING_TTL_MS: "2000" }`. */
  vars?: Record<string, string>;
  /** More arguments for `wrangler dev`; they come last and so win. */
  args?: readonly string[];
}

/** A Worker that answers at `url`, for example `http://127.0.0.1:8787`; `child` is its `wrangler dev`. */
export interface LocalService {
  url: string;
  child: Child;
}

/**
 * Creates or updates the local database, with the demo accounts in it.
 *
 * @throws with what wrangler printed.
 */
export async function prepareDatabase(place: Place): Promise<void> {
  await runWrangler(["d1", "migrations", "apply", "DB", "--local"], place);
  await runWrangler(["d1", "execute", "DB", "--local", "--file", "seeds/demo.sql"], place);
}

/**
 * Reads the local database with one SQL query, beside the service that may be running on it.
 *
 * @returns the rows, each an object by column name. The caller knows their types.
 * @throws with what wrangler printed.
 */
export async function readDatabase<Row>(query: string, place: Place): Promise<Row[]> {
  const args = ["d1", "execute", "DB", "--local", "--json", "--command", query];
  const [answer] = JSON.parse(await runWrangler(args, place)) as [{ results: Row[] }];
  return answer.results;
}

/**
 * Starts `wrangler dev` and waits until the Worker answers.
 *
 * @throws with all wrong settings, or with what wrangler printed, when it ends or is not ready within a minute. Nothing
 *   is left running then.
 */
export async function startLocalService(options: ServiceOptions): Promise<LocalService> {
  const { ip = "127.0.0.1", port = 0, vars = {}, args = [] } = options;
  // The inspector's port is as good as any: two services may run at once.
  const address = ["--ip", ip, "--port", String(port), "--inspector-port", "0"];
  const settings = Object.entries(vars).flatMap(([name, value]) => ["--var", `${name}:${value}`]);
  const child = startWrangler(["dev", ...address, ...settings, ...args], options);
  const host = ip === "0.0.0.0" ? "127.0.0.1" : ip;
  const ready = portOf(child).then((actual) => untilHealthy(urlOf(host, actual), child));
  const expired = sleep(START_LIMIT_MS, failed("was not ready in time"), { ref: false });

  const watch = new AbortController();
  const refused = refusalOf(child, watch.signal);

  const start = await Promise.race([ready, refused, endOf(child), expired]);
  watch.abort();
  if (start.kind === "ready") return { url: start.url, child };
  await child.stop();
  throw new Error(wrongSettings(child.output()) ?? `${start.why}:\n\n${child.output().trim()}`);
}

type Start = { kind: "ready"; url: string } | { kind: "failed"; why: string };

function failed(how: string): Start {
  return { kind: "failed", why: `wrangler dev ${how}` };
}

function endOf(child: Child): Promise<Start> {
  return child.ended.then((code) => failed(`ended with exit code ${code}`));
}

/**
 * Once the Worker has said which settings are wrong, there is nothing to wait for: wrangler would only ask npm whether
 * a newer wrangler does better.
 */
function refusalOf(child: Child, signal: AbortSignal): Promise<Start> {
  const stderr = child.process.stderr!;
  return new Promise((resolve) => {
    const look = () => {
      if (wrongSettings(child.output()) !== undefined) resolve(failed("refused its settings"));
    };
    stderr.on("data", look);
    signal.addEventListener("abort", () => stderr.off("data", look));
  });
}

function urlOf(host: string, port: number): string {
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** wrangler tells its parent where it listens: with port 0, nobody else knows. */
function portOf({ process: wrangler }: Child): Promise<number> {
  return new Promise((resolve) => {
    wrangler.on("message", (message: string) => {
      const { event, port } = JSON.parse(message) as { event: string; port: number };
      if (event === "DEV_SERVER_READY") resolve(port);
    });
  });
}

/** It listens before the Worker runs; only an answer of the Worker says that its settings are valid. */
async function untilHealthy(url: string, child: Child): Promise<Start> {
  while (!(await isHealthy(url))) {
    if (child.hasEnded()) return endOf(child);
    await sleep(HEALTH_PAUSE_MS);
  }
  return { kind: "ready", url };
}

function isHealthy(url: string): Promise<boolean> {
  const signal = AbortSignal.timeout(HEALTH_LIMIT_MS);
  return fetch(`${url}/healthz`, { signal }).then(
    (response) => response.ok,
    () => false,
  );
}

/** The message of src/env.ts, out of everything that wrangler and workerd say around it. The stack ends the list. */
function wrongSettings(output: string): string | undefined {
  const found = /Wrong settings:\s*\n((?:[ \t]+[A-Z][A-Z0-9_]*: .*\n)+)\s+at /.exec(output);
  if (found === null) return undefined;
  const problems = found[1]!.trimEnd().split("\n");
  return ["Wrong settings:", ...problems.map((problem) => `  ${problem.trim()}`)].join("\n");
}

async function runWrangler(args: readonly string[], place: Place): Promise<string> {
  const child = startWrangler(args, place);
  const code = await child.ended;
  if (code === 0) return child.stdout();
  const command = `wrangler ${args.slice(0, 3).join(" ")}`;
  throw new Error(`${command} ended with exit code ${code}:\n\n${child.output().trim()}`);
}

function startWrangler(args: readonly string[], { persistTo, tmpDir }: Place): Child {
  const persist = persistTo === undefined ? [] : ["--persist-to", persistTo];
  const env = { ...WRANGLER_ENV, ...(tmpDir !== undefined && { TMPDIR: tmpDir }) };
  return startChild(WRANGLER, [...args, ...persist], { cwd: ROOT, env });
}
