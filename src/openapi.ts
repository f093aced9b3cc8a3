import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";

import type { AppEnv } from "./scope.ts";

export const openApiDocument = (c: Context<AppEnv>) => ({
  openapi: "3.1.0",
  info: {
    title: "idempotent-orders",
    version: "1",
    description:
      "Orders and payments that survive retries. Every POST takes an Idempotency-Key: repeat it until you have an answer, and it has acted exactly once.",
    license: { name: "MIT", identifier: "MIT" },
  },
  servers: [{ url: new URL(c.req.url).origin }],
});

export function securitySchemes(registry: OpenAPIHono<AppEnv>["openAPIRegistry"]): void {
  registry.registerComponent("securitySchemes", "account", {
    type: "http",
    scheme: "bearer",
    description: "An account's API key.",
  });
  registry.registerComponent("securitySchemes", "webhook", {
    type: "apiKey",
    in: "header",
    name: "stripe-signature",
    description: "The provider's signature over the raw body.",
  });
  registry.registerComponent("securitySchemes", "operator", {
    type: "http",
    scheme: "bearer",
    description: "ADMIN_TOKEN. The operator's routes are not there where it is not set.",
  });
}
