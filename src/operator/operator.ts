import { createRoute, z } from "@hono/zod-openapi";
import { createMiddleware } from "hono/factory";
import { timingSafeEqual } from "hono/utils/buffer";

import { bearerToken } from "../bearer.ts";
import { problemResponse } from "../problem.ts";
import { answerHeaders, named, problemResponses } from "../route-answers.ts";
import type { AppEnv } from "../scope.ts";

/** Operator routes take ADMIN_TOKEN, and are not there at all where none is set. */
const operatorOnly = createMiddleware<AppEnv>(async (c, next) => {
  const { adminToken } = c.var.config;
  if (adminToken === undefined) return problemResponse(c, "not_found");
  if (!(await timingSafeEqual(bearerToken(c) ?? "", adminToken))) {
    return problemResponse(c, "unauthorized", { headers: { "www-authenticate": "Bearer" } });
  }
  await next();
});

type ContentOf<Type extends string, Wire> = { [type in Type]: { schema: Wire } };

/** Declares a GET for the operator. */
export function operatorRoute<
  const Path extends string,
  Wire extends z.ZodType,
  const Query extends z.ZodObject = z.ZodObject<{}>,
  const Type extends string = "application/json",
>(route: { path: Path; summary: string; wire: Wire; query?: Query; type?: Type }) {
  const { path, summary, wire, query, type = "application/json" as Type } = route;
  return createRoute({
    method: "get",
    path,
    ...named("get", path),
    summary,
    security: [{ operator: [] }],
    middleware: [operatorOnly],
    request: { query: query as Query },
    responses: {
      200: {
        description: "OK",
        headers: answerHeaders,
        content: { [type]: { schema: wire } } as ContentOf<Type, Wire>,
      },
      ...problemResponses([
        ...(query === undefined ? [] : (["invalid_request"] as const)),
        "unauthorized",
        "not_found",
        "internal_error",
        "service_unavailable",
      ]),
    },
  });
}
