import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { uuidv7 } from "uuidv7";

import { createApp } from "./app.ts";
import { configOf } from "./env.ts";
import { sweepUntilCaughtUp } from "./idempotency/sweep.ts";
import { log } from "./log.ts";

// Read once before anything is served: with a wrong setting the Worker does not start, and a deploy is refused.
configOf(env);

const ports = {
  now: Date.now,
  newId: uuidv7,
  sleep: (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms)),
};

const app = createApp(ports);

export default {
  fetch: app.fetch,

  async scheduled(_event, bindings) {
    const { pendingTtlMs } = configOf(bindings);
    const report = await sweepUntilCaughtUp(drizzle(bindings.DB), { ...ports, pendingTtlMs });
    log("info", { event: "cron_sweep", ...report });
  },
} satisfies ExportedHandler<Env>;
