import { realpath } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

import { type ServiceOptions, startLocalService } from "../local-service.ts";
import { findDescendant } from "./processes.ts";

/** How often a look is taken for the runtime to be there, and how many looks it gets: a busy machine takes seconds. */
const POLL_MS = 25;
const MAX_POLLS = 2_400;

export type MortalService = Awaited<ReturnType<typeof startMortalService>>;

/** A local service that can be killed, as a machine or a deployment does it: without a word. */
export async function startMortalService(options: ServiceOptions & { persistTo: string }) {
  let service = await startLocalService(options);
  const directory = await realpath(options.persistTo);

  /**
   * wrangler dev runs two workerds: one listens and passes requests on, the other is the Worker with its databases. The
   * one that has them open is meant, and it is not there for a moment after it was killed.
   */
  async function findRuntime(): Promise<number> {
    const { child } = service;
    for (let poll = 0; poll < MAX_POLLS && !child.hasEnded(); poll++) {
      const pid = await findDescendant(child.process.pid!, { name: "workerd", directory });
      if (pid !== undefined) return pid;
      await sleep(POLL_MS);
    }
    throw new Error(`there is no runtime to be killed:\n\n${child.output().trim()}`);
  }

  return {
    url: () => service.url,
    findRuntime,
    /**
     * Kills the runtime; wrangler dev starts another one by itself, on the same files. Or kills everything, and starts a
     * new service on them, at another address.
     */
    async kill(what: "runtime" | "everything", pid: number): Promise<void> {
      process.kill(pid, "SIGKILL");
      if (what === "runtime") return;
      service.child.process.kill("SIGKILL");
      await service.child.ended;
      service = await startLocalService(options);
    },
    stop: () => service.child.stop(),
  };
}
