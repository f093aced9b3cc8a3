import { type RouteHandler, z } from "@hono/zod-openapi";

import { booksOf } from "../payments/provider.ts";
import { orNotFound } from "../problem-answers.ts";
import type { AppEnv } from "../scope.ts";
import { operatorRoute } from "./operator.ts";

const BooksQuery = z.object({
  limit: z.coerce.number().int().min(1).max(1_000).default(100),
  before: z.coerce
    .number()
    .int()
    .optional()
    .describe("The `seq` of the last one of the page before."),
});

/** What the sandbox was asked and what it charged, so that "one charge" is checked there and not against ourselves. */
export const chargesRoute = operatorRoute({
  path: "/admin/sandbox/charges",
  summary: "List the charges that the sandbox made, newest first",
  query: BooksQuery,
  wire: z.object({ data: z.array(z.looseObject({ seq: z.int(), id: z.string() })) }),
});

export const callsRoute = operatorRoute({
  path: "/admin/sandbox/calls",
  summary: "List the calls that the sandbox received, newest first",
  query: BooksQuery,
  wire: z.object({ data: z.array(z.looseObject({ seq: z.int() })) }),
});

export const listCharges: RouteHandler<typeof chargesRoute, AppEnv> = async (c) => {
  const sandbox = orNotFound(booksOf(c));
  return c.json({ data: await sandbox.charges(c.req.valid("query")) }, 200);
};

export const listCalls: RouteHandler<typeof callsRoute, AppEnv> = async (c) => {
  const sandbox = orNotFound(booksOf(c));
  return c.json({ data: await sandbox.calls(c.req.valid("query")) }, 200);
};
