import { join } from "node:path";

import { build, type Rolldown } from "vite";

export const root = join(import.meta.dirname, "../..");

/** The client and all that it needs, as one script for a page, in which it is `client`. */
export async function bundledClient() {
  const [result] = (await build({
    root,
    configFile: false,
    logLevel: "silent",
    build: {
      write: false,
      lib: { entry: "src/client/client.ts", formats: ["iife"], name: "client" },
    },
  })) as Rolldown.RolldownOutput[];
  return result!.output[0];
}
