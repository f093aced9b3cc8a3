import { type RouteHandler, z } from "@hono/zod-openapi";

import { selectUnsettled } from "../payments/reconcile.ts";
import type { AppEnv } from "../scope.ts";
import { timestamp } from "../wire.ts";
import { operatorRoute } from "./operator.ts";

/** Most of each kind that one answer lists. */
const MAX_UNSETTLED = 100;

export const unsettledRoute = operatorRoute({
  path: "/admin/unsettled",
  summary: `List payments and refunds that have been processing for longer than a lease, oldest first: up to ${MAX_UNSETTLED} of each kind, those that were asked for longest ago`,
  wire: z.object({
    data: z.array(
      z.object({ id: z.string(), since: z.iso.datetime(), last_asked_at: z.iso.datetime() }),
    ),
  }),
});

export const listUnsettled: RouteHandler<typeof unsettledRoute, AppEnv> = async (c) => {
  const { unsettledPayments, unsettledRefunds } = await selectUnsettled(c.var.db, {
    before: c.var.now() - c.var.config.pendingTtlMs,
    limit: MAX_UNSETTLED,
  });
  const data = [...unsettledPayments, ...unsettledRefunds]
    .toSorted((one, other) => one.createdAt - other.createdAt)
    .map(({ id, createdAt, updatedAt }) => ({
      id,
      since: timestamp(createdAt),
      last_asked_at: timestamp(updatedAt),
    }));
  return c.json({ data }, 200);
};
