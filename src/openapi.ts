import { type OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";

import type { ProblemCode } from "./problems.ts";
import { answerHeaders, named, problemResponses } from "./route-answers.ts";
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

/** The pages for people, which are mounted beside the routes. */
export function describePages(registry: OpenAPIHono<AppEnv>["openAPIRegistry"]): void {
  const page = (path: string, summary: string, type = "text/html", problems: ProblemCode[] = []) =>
    registry.registerPath({
      method: "get",
      path,
      ...named("get", path),
      tags: ["pages"],
      summary,
      security: [],
      ...(path.includes("{code}") && { request: { params: z.object({ code: z.string() }) } }),
      responses: {
        200: { description: "OK", headers: answerHeaders, content: { [type]: { schema: {} } } },
        ...problemResponses([...problems, "internal_error"]),
      },
    });
  page("/", "Where to begin", "application/json");
  page("/openapi.json", "This document", "application/json");
  page("/docs", "This document, to be read");
  page("/problems", "Every error, with a link to its page");
  page("/problems/{code}", "What an error means, and what to do", "text/html", ["not_found"]);
}

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
