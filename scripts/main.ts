import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs, type ParseArgsConfig } from "node:util";

import { exitCodeOf, stopAll, untilInterrupted } from "./child-process.ts";

const WRONG_ARGUMENTS = 2;

/** Ends the process over what cannot be done as it was asked for, in plain words. */
export function refuse(message: string): never {
  console.error(message);
  process.exit(WRONG_ARGUMENTS);
}

/** `parseArgs`, whose complaints a person can read. */
export function argumentsOf<Config extends ParseArgsConfig>(config: Config) {
  try {
    return parseArgs(config);
  } catch (error) {
    return refuse((error as Error).message);
  }
}

/**
 * Runs a script in an empty directory, and ends the process with the code that it returns: 1 when it throws, 128 and the
 * signal's number when somebody wants it to end. Neither the directory nor a process that was started is left.
 *
 * @param name Of the script, for the directory's.
 * @param onInterrupt What has to be done before what is running is stopped.
 */
export async function main(
  { name, onInterrupt }: { name: string; onInterrupt?: () => void | Promise<void> },
  run: (directory: string) => Promise<number>,
): Promise<never> {
  let stoppedBy: NodeJS.Signals | undefined;
  const interrupted = untilInterrupted().then(async (signal) => {
    stoppedBy = signal;
    await onInterrupt?.();
    return exitCodeOf(signal);
  });
  const directory = await mkdtemp(join(tmpdir(), `idempotent-orders-${name}-`));
  const ended = await Promise.race([run(directory), interrupted]).catch((error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    return 1;
  });
  // What was interrupted may have had a code of its own.
  const code = stoppedBy === undefined ? ended : exitCodeOf(stoppedBy);
  await stopAll();
  await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  process.exit(code);
}
