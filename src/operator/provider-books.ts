import { type RouteHandler, z } from "@hono/zod-openapi";

import { booksOf } from "../payments/provider.ts";
import { hanging } from "../payments/reconcile.ts";
import { orNotFound } from "../problem-answers.ts";
import type { AppEnv } from "../scope.ts";
import { timestamp } from "../wire.ts";
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

export const unsettledRoute = operatorRoute({
  path: "/admin/unsettled",
  summary: "List payments and refunds that have been processing for longer than a lease",
  wire: z.object({
    data: z.array(
      z.object({ id: z.string(), since: z.iso.datetime(), last_asked_at: z.iso.datetime() }),
    ),
  }),
});

/** Most that one answer lists. */
const MAX_UNSETTLED = 100;

export const listUnsettled: RouteHandler<typeof unsettledRoute, AppEnv> = async (c) => {
  const before = c.var.now() - c.var.config.pendingTtlMs;
  const { hangingPayments, hangingRefunds } = await hanging(c.var.db, {
    before,
    limit: MAX_UNSETTLED,
  });
  const data = [...hangingPayments, ...hangingRefunds].map(({ id, createdAt, updatedAt }) => ({
    id,
    since: timestamp(createdAt),
    last_asked_at: timestamp(updatedAt),
  }));
  return c.json({ data }, 200);
};

export const listCharges: RouteHandler<typeof chargesRoute, AppEnv> = async (c) => {
  const sandbox = orNotFound(booksOf(c) ?? undefined);
  return c.json({ data: await sandbox.charges(c.req.valid("query")) }, 200);
};

export const listCalls: RouteHandler<typeof callsRoute, AppEnv> = async (c) => {
  const sandbox = orNotFound(booksOf(c) ?? undefined);
  return c.json({ data: await sandbox.calls(c.req.valid("query")) }, 200);
};
