import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { uuidv7 } from "uuidv7";

import { createApp } from "./app.ts";
import { configOf, CRONS } from "./env.ts";
import { sweepUntilCaughtUp } from "./idempotency/sweep.ts";
import { describeError, log } from "./log.ts";
import { providerOf } from "./payments/provider.ts";
import { reconcile } from "./payments/reconcile.ts";

export { StripeSandbox } from "./payments/sandbox/sandbox.ts";

// Read once before anything is served: with a wrong setting the Worker does not start, and a deploy is refused.
const { hasLab } = configOf(env);

const ports = {
  now: Date.now,
  newId: uuidv7,
  sleep: (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms)),
};

const app = createApp(ports, { hasLab });

export default {
  fetch: app.fetch,

  /** Any other cron than the two is one that somebody set or sent by hand: everything runs. */
  async scheduled({ cron }, bindings) {
    const db = drizzle(bindings.DB);
    const config = configOf(bindings);
    if (cron !== CRONS.reconcile) {
      const sweep = () => sweepUntilCaughtUp(db, { ...ports, ...config });
      await job("cron_sweep", sweep, ({ isLagging }) => isLagging);
    }
    if (cron !== CRONS.sweep) {
      const provider = providerOf({ env: bindings, var: { config } });
      await job("reconcile", () => reconcile({ db, ports, settings: config, provider }));
    }
  },
} satisfies ExportedHandler<Env>;

/** One job's failure does not keep the next one from its work. A job that did its work may still have bad news. */
async function job<Report extends object>(
  event: string,
  work: () => Promise<Report>,
  isBad: (report: Report) => boolean = () => false,
): Promise<void> {
  try {
    const report = await work();
    log(isBad(report) ? "error" : "info", { event, ...report });
  } catch (error) {
    log("error", { event, error: describeError(error) });
  }
}
