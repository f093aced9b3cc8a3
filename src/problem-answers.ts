import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import type { z } from "zod";

import { problemResponse } from "./problem.ts";
import type { AppEnv } from "./scope.ts";

/** For the validators: 400 with every field that is wrong, each by its JSON Pointer (RFC 6901). */
export function refuseInvalid(
  result: { success: true } | { success: false; error: z.core.$ZodError; target: string },
  c: Context<AppEnv>,
): Response | undefined {
  if (result.success) return undefined;
  const errors = result.error.issues.map(({ path, message }) => ({ path: pointer(path), message }));
  return problemResponse(c, "invalid_request", {
    detail: errors.map(({ path, message }) => `${path || "The request"}: ${message}`).join("; "),
    errors,
  });
}

/** Whatever was thrown: HTTP errors of the libraries by their meaning, everything else opaquely. */
export function answerError(error: Error, c: Context<AppEnv>): Response {
  if (!(error instanceof HTTPException)) return problemResponse(c, "internal_error");
  if (error.status === 415) return problemResponse(c, "unsupported_media_type");
  if (error.status === 404) return problemResponse(c, "not_found");
  if (error.status !== 400) return problemResponse(c, "internal_error");
  return problemResponse(c, "invalid_request", { errors: [{ path: "", message: error.message }] });
}

export function methodRefused(c: Context<AppEnv>, methods: string[]): Response {
  return problemResponse(c, "method_not_allowed", { headers: { allow: methods.join(", ") } });
}

/** For reads: what was found, or the 404 that also hides what belongs to another account. */
export function orNotFound<Wire>(wire: Wire | undefined): Wire {
  if (wire === undefined) throw new HTTPException(404);
  return wire;
}

function pointer(path: readonly PropertyKey[]): string {
  return path
    .map((part) => `/${String(part).replaceAll("~", "~0").replaceAll("/", "~1")}`)
    .join("");
}
