import { type RouteHandler, z } from "@hono/zod-openapi";

import { parseIdempotencyKey } from "./idempotency/key.ts";
import { lookUp } from "./idempotency/ledger.ts";
import { KeyStatus, keyStatusOf } from "./idempotency/lookup.ts";
import { orNotFound } from "./problem-answers.ts";
import { readRoute } from "./routes.ts";
import type { AppEnv } from "./scope.ts";

export const keyStatusRoute = readRoute({
  path: "/idempotency-keys/{key}",
  summary: "Read what became of one of your own keys",
  params: z.object({
    key: z
      .string()
      .describe(
        "Percent-encoded; bare or quoted, as in the header (the keys `.` and `..` quoted only).",
      ),
  }),
  wire: KeyStatus,
});

export const readKeyStatus: RouteHandler<typeof keyStatusRoute, AppEnv> = async (c) => {
  const parsed = parseIdempotencyKey(c.req.valid("param").key);
  const { db, principal } = c.var;
  const row = parsed.kind === "key" ? await lookUp(db, { principal, key: parsed.key }) : undefined;
  return c.json(keyStatusOf(orNotFound(row)), 200);
};
