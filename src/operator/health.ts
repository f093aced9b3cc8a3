import { createRoute, type RouteHandler, z } from "@hono/zod-openapi";

import { answerHeaders, named } from "../route-answers.ts";
import type { AppEnv } from "../scope.ts";

/** Liveness only: it asks nothing of the database, so a busy database does not get the service restarted. */
export const healthRoute = createRoute({
  method: "get",
  path: "/healthz",
  ...named("get", "/healthz"),
  summary: "Liveness",
  security: [],
  responses: {
    200: {
      description: "The service answers and its settings are valid",
      headers: answerHeaders,
      content: { "application/json": { schema: z.object({ status: z.literal("ok") }) } },
    },
  },
});

export const health: RouteHandler<typeof healthRoute, AppEnv> = (c) =>
  c.json({ status: "ok" as const }, 200);
