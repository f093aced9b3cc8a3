import { join } from "node:path";

import { type Child, startChild } from "./child-process.ts";
import type { OwnerMessage } from "./demo-owner.ts";
import type { KeyedRequest } from "./demo-shop.ts";
import { ROOT, WRANGLER_ENV } from "./local-service.ts";

/** Where the service keeps its data: the owner works on the same. */
export interface DemoPlace {
  persistTo: string;
  tmpDir: string;
}

/** Starts an owner that has claimed the request's key, and stands still. */
export async function startOwner(
  { persistTo, tmpDir }: DemoPlace,
  { path, key, body }: KeyedRequest,
) {
  const env = { ...WRANGLER_ENV, TMPDIR: tmpDir };
  const script = join(import.meta.dirname, "demo-owner.ts");
  const owner = startChild(script, [persistTo, path, key, body], { cwd: ROOT, env });
  await messageFrom(owner, "stalled");
  return {
    /** Lets it go on, as if its lease had not ended: what its commit came to, and the id of what it would have made. */
    wakeUp: async () => {
      const attempted = messageFrom(owner, "tried_to_commit");
      owner.process.send("wake up");
      return attempted;
    },
  };
}

/** @throws with what the owner printed, if it ends without having said it. */
function messageFrom<Kind extends OwnerMessage["kind"]>(owner: Child, kind: Kind) {
  const said = new Promise<Extract<OwnerMessage, { kind: Kind }>>((resolve) => {
    owner.process.on("message", (message: OwnerMessage) => {
      if (message.kind === kind) resolve(message as Extract<OwnerMessage, { kind: Kind }>);
    });
  });
  const ended = owner.ended.then((exitCode) => {
    throw new Error(`The owner ended with exit code ${exitCode}:\n\n${owner.output().trim()}`);
  });
  return Promise.race([said, ended]);
}
