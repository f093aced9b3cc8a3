// A stand-in for k6, a test double: it runs the scripts in load-tests/ for a few seconds where k6 is not installed, with
// k6's arguments and exit codes, and refuses what k6 does not have. It measures itself as much as the service, so its
// figures of speed mean nothing. To load a service, install k6.
import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { parseArgs } from "node:util";

import { runTest } from "./run.ts";

/**
 * Those that k6 ends with: https://github.com/grafana/k6/blob/master/errext/exitcodes/codes.go. What setup() and
 * teardown() throw has none of its own where they are asynchronous.
 */
const EXIT = { thresholds: 99, config: 104, aborted: 105, overlooked: 107, frame: 255 };

const FLAGS = {
  env: { type: "string", short: "e", multiple: true },
  "no-usage-report": { type: "boolean" },
  quiet: { type: "boolean", short: "q" },
} as const;

const stop = new AbortController();
process.on("SIGINT", () => stop.abort());
process.on("SIGTERM", () => stop.abort());
process.exit(await main(process.argv.slice(2)));

async function main([command, ...args]: string[]): Promise<number> {
  if (command === "version") {
    console.log("k6 v0.0.0 (a stand-in for tests)");
    return 0;
  }
  if (command !== "run") throw new Error(`the stand-in cannot ${command}`);
  const { values, positionals } = parseArgs({ args, options: FLAGS, allowPositionals: true });
  if (positionals.length !== 1) throw new Error("the stand-in runs one script");
  const env = { ...process.env, ...Object.fromEntries((values.env ?? []).map(pairOf)) } as Record<
    string,
    string
  >;
  console.error("A stand-in for k6 runs this script: its figures of speed mean nothing.");

  const ended = await runTest(resolve(positionals[0]!), { env, stopped: stop.signal });
  if (ended.kind === "config") {
    report(ended.error);
    return EXIT.config;
  }
  for (const { error } of ended.thrown) report(error);
  for (const [target, content] of Object.entries(ended.summary)) {
    if (typeof content !== "string") throw new Error(`handleSummary() has no text for ${target}`);
    if (target === "stdout") console.log(content);
    else await writeFile(target, content);
  }
  if (stop.signal.aborted) return EXIT.aborted;
  if (ended.thrown.some(({ part }) => part === "setup" || part === "teardown")) return EXIT.frame;
  if (ended.failed.length > 0) {
    console.error(`thresholds failed: ${ended.failed.join("; ")}`);
    return EXIT.thresholds;
  }
  if (ended.thrown.length === 0) return 0;
  console.error("k6 would have passed this: no threshold noticed what was thrown");
  return EXIT.overlooked;
}

function report(error: unknown): void {
  console.error(error instanceof Error ? error.stack : error);
}

function pairOf(pair: string): [string, string] {
  const at = pair.indexOf("=");
  if (at < 1) throw new Error(`-e ${pair} is not NAME=VALUE`);
  return [pair.slice(0, at), pair.slice(at + 1)];
}
