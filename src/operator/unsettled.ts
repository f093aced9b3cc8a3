import { type RouteHandler, z } from "@hono/zod-openapi";
import { and, eq, gt, lt, or } from "drizzle-orm";
import { unionAll } from "drizzle-orm/sqlite-core";

import { payments, refunds } from "../payments/schema.ts";
import type { AppEnv } from "../scope.ts";
import { timestamp } from "../wire.ts";
import { operatorRoute } from "./operator.ts";

/** Most that one answer lists. */
const MAX_UNSETTLED = 100;

export const unsettledRoute = operatorRoute({
  path: "/admin/unsettled",
  summary: `List payments and refunds that have been processing for longer than a lease: the ${MAX_UNSETTLED} oldest, oldest first`,
  wire: z.object({
    data: z.array(
      z.object({ id: z.string(), since: z.iso.datetime(), last_asked_at: z.iso.datetime() }),
    ),
  }),
});

export const listUnsettled: RouteHandler<typeof unsettledRoute, AppEnv> = async (c) => {
  const { db, config } = c.var;
  // By when it began: every try, and the reconciler's too, is an asking, and what hangs is asked for again and again.
  // Further ahead than a lease is long: begun by a clock that was wrong, who knows when.
  const [before, after] = [c.var.now() - config.pendingTtlMs, c.var.now() + config.pendingTtlMs];
  const processing = <Table extends typeof payments | typeof refunds>(table: Table) =>
    db
      .select({ id: table.id, createdAt: table.createdAt, updatedAt: table.updatedAt })
      .from(table)
      .where(
        and(
          eq(table.status, "processing"),
          or(lt(table.createdAt, before), gt(table.createdAt, after)),
        ),
      );
  const rows = await unionAll(processing(payments), processing(refunds))
    .orderBy(({ createdAt }) => createdAt)
    .limit(MAX_UNSETTLED);
  const data = rows.map(({ id, createdAt, updatedAt }) => ({
    id,
    since: timestamp(createdAt),
    last_asked_at: timestamp(updatedAt),
  }));
  return c.json({ data }, 200);
};
