import { createRoute, type OpenAPIHono } from "@hono/zod-openapi";

import type { Ports } from "../idempotency/attempt.ts";
import { createOrder } from "../orders/create-order.ts";
import { readBody } from "../request-body.ts";
import { authenticated } from "../routes.ts";
import type { AppEnv } from "../scope.ts";
import { noKey } from "./no-key.ts";
import { selectThenInsert } from "./select-then-insert.ts";
import { twoTransactions } from "./two-transactions.ts";
import { unfenced } from "./unfenced.ts";

// What is answered is the real mutation's, and what is refused is refused by the real route's middleware.
const hidden = {
  hide: true,
  responses: { 201: { description: "The order, as POST /orders answers it" } },
} as const;

const naiveRoute = <const Path extends string>(path: Path) =>
  createRoute({ ...createOrder.route, ...hidden, path });

const noKeyRoute = createRoute({
  ...createOrder.route,
  ...hidden,
  path: "/lab/orders/no-key",
  middleware: [authenticated, readBody],
  request: { body: createOrder.route.request.body },
});

/**
 * The control group: the order endpoint done the usual ways, each good as far as it goes, and each placing a second order
 * where its docstring says. Compare them with `execute` in src/idempotency/idempotent.ts.
 */
export function mountLab(app: OpenAPIHono<AppEnv>, ports: Ports): void {
  app.openapi(noKeyRoute, noKey(ports));
  app.openapi(naiveRoute("/lab/orders/select-then-insert"), selectThenInsert(ports));
  app.openapi(naiveRoute("/lab/orders/two-transactions"), twoTransactions(ports));
  app.openapi(naiveRoute("/lab/orders/unfenced"), unfenced(ports));
}
