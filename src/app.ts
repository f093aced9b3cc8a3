import { OpenAPIHono } from "@hono/zod-openapi";
import { methodNotAllowed } from "hono/method-not-allowed";
import { requestId } from "hono/request-id";
import { secureHeaders } from "hono/secure-headers";

import { adjustStock } from "./catalog/adjust-stock.ts";
import { createProduct } from "./catalog/create-product.ts";
import * as catalog from "./catalog/read-products.ts";
import { crossOrigin } from "./cross-origin.ts";
import type { Ports } from "./idempotency/attempt.ts";
import { idempotency } from "./idempotency/handler.ts";
import { keyStatusRoute, readKeyStatus } from "./key-status.ts";
import { ledgerService } from "./ledger-service.ts";
import { logRequests } from "./log.ts";
import { openApiDocument, securitySchemes } from "./openapi.ts";
import { healthRoute } from "./operator/health.ts";
import { cancelOrder } from "./orders/cancel-order.ts";
import { createOrder } from "./orders/create-order.ts";
import * as orders from "./orders/read-orders.ts";
import { answerError, methodRefused, orNotFound, refuseInvalid } from "./problem-answers.ts";
import { problemIndex, problemPage } from "./problem-pages.ts";
import { problemResponse } from "./problem.ts";
import { type AppEnv, openScope } from "./scope.ts";

/** The service's table of contents: what every request passes, in order, then every route. */
export function createApp(ports: Ports) {
  const idempotent = idempotency(ledgerService(ports));
  const app = new OpenAPIHono<AppEnv>({ defaultHook: refuseInvalid });

  app.use(requestId());
  app.use(logRequests(ports));
  app.use(openScope(ports));
  app.use(secureHeaders());
  app.use(crossOrigin);
  app.use(methodNotAllowed({ app, onMethodNotAllowed: methodRefused }));
  app.notFound((c) => problemResponse(c, "not_found"));
  app.onError(answerError);

  app.get("/", (c) =>
    c.json({ openapi: "/openapi.json", problems: "/problems", health: "/healthz" }),
  );
  app.get("/problems", (c) => c.html(problemIndex()));
  app.get("/problems/:code", (c) => problemPage(c, c.req.param("code")) ?? c.notFound());
  app.doc31("/openapi.json", openApiDocument);
  securitySchemes(app.openAPIRegistry);

  return app
    .openapi(healthRoute, (c) => c.json({ status: "ok" as const }, 200))
    .openapi(keyStatusRoute, async (c) =>
      c.json(
        orNotFound(await readKeyStatus(c.var.db, c.var.principal, c.req.valid("param").key)),
        200,
      ),
    )

    .openapi(catalog.listProductsRoute, async (c) =>
      c.json(await catalog.listProducts(c.var.db, c.var.principal, c.req.valid("query")), 200),
    )
    .openapi(catalog.getProductRoute, async (c) =>
      c.json(
        orNotFound(await catalog.getProduct(c.var.db, c.var.principal, c.req.valid("param").id)),
        200,
      ),
    )
    .openapi(createProduct.route, idempotent(createProduct))
    .openapi(adjustStock.route, idempotent(adjustStock))

    .openapi(orders.listOrdersRoute, async (c) =>
      c.json(await orders.listOrders(c.var.db, c.var.principal, c.req.valid("query")), 200),
    )
    .openapi(orders.getOrderRoute, async (c) =>
      c.json(
        orNotFound(await orders.getOrder(c.var.db, c.var.principal, c.req.valid("param").id)),
        200,
      ),
    )
    .openapi(createOrder.route, idempotent(createOrder))
    .openapi(cancelOrder.route, idempotent(cancelOrder));
}
