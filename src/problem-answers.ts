import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import type { z } from "zod";

import { classifyD1Failure } from "./idempotency/batch.ts";
import { problemResponse } from "./problem.ts";
import type { AppEnv } from "./scope.ts";

/** For the validators: 400 with every field that is wrong, each by its JSON Pointer (RFC 6901). */
export function refuseInvalid(
  result: { success: true } | { success: false; error: z.core.$ZodError; target: string },
  c: Context<AppEnv>,
): Response | undefined {
  if (result.success) return undefined;
  // A path that names nothing there can be.
  if (result.target === "param") return problemResponse(c, "not_found");
  const errors = result.error.issues.map(({ path, message }) => ({ path: pointer(path), message }));
  return problemResponse(c, "invalid_request", {
    detail: errors.map(({ path, message }) => `${path || "The request"}: ${message}`).join("; "),
    errors,
  });
}

/** Whatever was thrown: HTTP errors of the libraries by their meaning, everything else opaquely. */
export function answerError(error: Error, c: Context<AppEnv>): Response {
  if (!(error instanceof HTTPException)) return unexpected(error, c);
  if (error.status === 415) return problemResponse(c, "unsupported_media_type");
  if (error.status === 404) return problemResponse(c, "not_found");
  if (error.status !== 400) return problemResponse(c, "internal_error");
  return problemResponse(c, "invalid_request", { errors: [{ path: "", message: error.message }] });
}

/** An overloaded database sheds reads as it sheds claims; all else is opaque. */
function unexpected(error: Error, c: Context<AppEnv>): Response {
  if (classifyD1Failure(error).kind !== "overloaded") return problemResponse(c, "internal_error");
  return problemResponse(c, "service_unavailable");
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
