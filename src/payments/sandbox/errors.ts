import type { IntentWire } from "./wire.ts";

/** A status and a body, ready to be stored and sent. */
export interface Reply {
  status: number;
  body: object;
}

/** The body of every answer that is not 2xx: https://docs.stripe.com/api/errors */
export interface StripeErrorBody {
  type: "api_error" | "card_error" | "idempotency_error" | "invalid_request_error";
  message: string;
  code?: string;
  decline_code?: string;
  param?: string;
  charge?: string;
  payment_intent?: IntentWire;
}

export function errorReply(status: number, error: StripeErrorBody): Reply {
  return { status, body: { error } };
}

export function invalidRequest(
  message: string,
  more: { code?: string; param?: string; status?: number } = {},
): Reply {
  const { status = 400, ...fields } = more;
  return errorReply(status, { type: "invalid_request_error", message, ...fields });
}

/** An object named in the path that is not there is a 404; one named by a parameter makes that parameter wrong: 400. */
export function noSuch(thing: string, id: string, where: { path: string } | { param: string }) {
  const isPath = "path" in where;
  return invalidRequest(`No such ${thing} here: '${id}'`, {
    status: isPath ? 404 : 400,
    code: "resource_missing",
    param: isPath ? where.path : where.param,
  });
}

export function unauthorized(apiKey: string | undefined): Reply {
  const message =
    apiKey === undefined
      ? "No API key came with the request. Send it as Authorization: Bearer sk_test_…"
      : `The sandbox takes test keys only, sk_test_…; this one is ${masked(apiKey)}`;
  return invalidRequest(message, { status: 401 });
}

function masked(apiKey: string): string {
  return `${apiKey.slice(0, 8)}****${apiKey.slice(8).slice(-4)}`;
}

export const KEY_REUSED = errorReply(400, {
  type: "idempotency_error",
  message: "This idempotency key was first used with another endpoint or other parameters.",
});

export const KEY_IN_USE = errorReply(409, {
  type: "idempotency_error",
  code: "idempotency_key_in_use",
  message: "Another request with this idempotency key is still under way. Try again later.",
});

export const UNAVAILABLE = errorReply(503, {
  type: "api_error",
  message: "The sandbox is unavailable, as it was asked to be. Nothing was executed.",
});

export const BROKEN = errorReply(500, {
  type: "api_error",
  message: "The sandbox failed. Nothing was executed.",
});

export const TOO_LARGE = invalidRequest("The request is too large.", { status: 413 });
export const KEY_TOO_LONG = invalidRequest("An idempotency key has at most 255 characters.");
export const MALFORMED = invalidRequest("The form cannot be read.");

export function unknownRoute(method: string, path: string): Reply {
  return invalidRequest(`The sandbox has no ${method} ${path}`, { status: 404 });
}
