import { z } from "@hono/zod-openapi";

import type { createApp } from "../../src/app.ts";
import type { idempotency } from "../../src/idempotency/handler.ts";
import type { Read } from "../../src/idempotency/ledger.ts";
import { type Decision, mutation, type RunContext } from "../../src/idempotency/mutation.ts";
import { keyedRoute } from "../../src/routes.ts";
import type { AppEnv } from "../../src/scope.ts";
import { ok } from "../../src/wire.ts";

/** Where a test's own mutation is mounted, beside the product's routes and through the same ledger. */
export const PATH = "/test/thing";

const route = keyedRoute({
  path: PATH,
  summary: "A test's own mutation",
  body: z.looseObject({}),
  status: 200,
  wire: z.unknown(),
  problems: [],
});

type Run = (context: RunContext<typeof route, Read[]>) => Decision | Promise<Decision>;
type Reads = Parameters<typeof mutation<typeof route, Read[]>>[1]["reads"];

/** For `openShop({ mount })`: a POST at `PATH` that runs `run`. */
export function mounting(run: Run, reads: Reads = () => []) {
  return (
    app: ReturnType<typeof createApp>,
    idempotent: ReturnType<typeof idempotency<AppEnv>>,
  ) => {
    const own = mutation<typeof route, Read[]>(route, { reads, run });
    app.openapi(own.route, idempotent(own));
  };
}

export const succeed: Run = () => ({ kind: "decided", response: ok({ done: true }), writes: [] });
