import { mkdir, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";

import { STAND_IN, STAND_IN_NODE_OPTIONS } from "./run-lesson.ts";

/** Makes the stand-in the program `k6`, and returns a PATH on which it is the first. */
export async function putStandInOn(directory: string): Promise<string> {
  const bin = join(directory, "bin");
  await mkdir(bin, { recursive: true });
  const command = `exec "${process.execPath}" ${STAND_IN_NODE_OPTIONS} "${STAND_IN}" "$@"`;
  await writeFile(join(bin, "k6"), `#!/bin/sh\n${command}\n`, { mode: 0o755 });
  return `${bin}${delimiter}${process.env["PATH"]!}`;
}
