import { OpenAPIHono } from "@hono/zod-openapi";
import { methodNotAllowed } from "hono/method-not-allowed";
import { requestId } from "hono/request-id";
import { secureHeaders } from "hono/secure-headers";

import { adjustStock } from "./catalog/adjust-stock.ts";
import { createProduct } from "./catalog/create-product.ts";
import * as catalog from "./catalog/read-products.ts";
import { crossOrigin } from "./cross-origin.ts";
import type { Config } from "./env.ts";
import type { Ports } from "./idempotency/attempt.ts";
import { idempotency } from "./idempotency/handler.ts";
import { keyStatusRoute, readKeyStatus } from "./key-status.ts";
import { mountLab } from "./lab/lab.ts";
import { ledgerService } from "./ledger-service.ts";
import { logRequests } from "./log.ts";
import { auditRoute, readAudit } from "./operator/audit.ts";
import { describePages, openApiDocument, securitySchemes } from "./openapi.ts";
import { health, healthRoute } from "./operator/health.ts";
import { ledgerRoute, readLedger } from "./operator/ledger-figures.ts";
import { metricsRoute, readMetrics } from "./operator/metrics.ts";
import * as books from "./operator/provider-books.ts";
import { listUnsettled, unsettledRoute } from "./operator/unsettled.ts";
import { cancelOrder } from "./orders/cancel-order.ts";
import { createOrder } from "./orders/create-order.ts";
import * as orders from "./orders/read-orders.ts";
import { payOrder, payOrderRoute } from "./payments/pay-order.ts";
import { providerOf } from "./payments/provider.ts";
import * as payments from "./payments/read-payments.ts";
import { refundPayment, refundPaymentRoute } from "./payments/refund-payment.ts";
import { settleEvent, webhookRoute } from "./payments/webhook.ts";
import { answerError, methodRefused, refuseInvalid } from "./problem-answers.ts";
import { problemIndex, problemPage } from "./problem-pages.ts";
import { problemResponse } from "./problem.ts";
import { type AppEnv, openScope } from "./scope.ts";

/** The service's table of contents: what every request passes, in order, then every route. */
export function createApp(ports: Ports, { hasLab }: Pick<Config, "hasLab"> = { hasLab: false }) {
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
    c.json({ docs: "/docs", openapi: "/openapi.json", problems: "/problems", health: "/healthz" }),
  );
  app.get("/problems", (c) => c.html(problemIndex()));
  app.get("/problems/:code", (c) => problemPage(c, c.req.param("code")) ?? c.notFound());
  app.doc31("/openapi.json", (c) => openApiDocument(new URL(c.req.url).origin));
  securitySchemes(app.openAPIRegistry);
  describePages(app.openAPIRegistry);
  if (hasLab) mountLab(app, ports);

  return app
    .openapi(healthRoute, health)
    .openapi(keyStatusRoute, readKeyStatus)

    .openapi(catalog.listProductsRoute, catalog.listProducts)
    .openapi(catalog.getProductRoute, catalog.getProduct)
    .openapi(createProduct.route, idempotent(createProduct))
    .openapi(adjustStock.route, idempotent(adjustStock))

    .openapi(orders.listOrdersRoute, orders.listOrders)
    .openapi(orders.getOrderRoute, orders.getOrder)
    .openapi(createOrder.route, idempotent(createOrder))
    .openapi(cancelOrder.route, idempotent(cancelOrder))

    .openapi(payments.listPaymentsRoute, payments.listPayments)
    .openapi(payments.getPaymentRoute, payments.getPayment)
    .openapi(
      payOrderRoute,
      idempotent((c) => payOrder(providerOf(c))),
    )
    .openapi(
      refundPaymentRoute,
      idempotent((c) => refundPayment(providerOf(c))),
    )
    .openapi(
      webhookRoute,
      idempotent((c) => settleEvent(providerOf(c))),
    )

    .openapi(ledgerRoute, readLedger)
    .openapi(metricsRoute, readMetrics)
    .openapi(auditRoute, readAudit)
    .openapi(unsettledRoute, listUnsettled)
    .openapi(books.chargesRoute, books.listCharges)
    .openapi(books.callsRoute, books.listCalls);
}
