import type { Context } from "hono";

import type { StoredResponse } from "./idempotency/decide.ts";
import type { Decision } from "./idempotency/mutation.ts";
import { type ProblemCode, type ProblemKind, PROBLEMS } from "./problems.ts";
import type { AppEnv } from "./scope.ts";

/** What varies between two occurrences of one problem; extra members go into the body (RFC 9457 §3.2). */
export interface Occurrence {
  detail?: string;
  /** Instead of the usual one, where a setting allows it. */
  status?: number;
  [member: string]: unknown;
}

const PROBLEM_JSON = "application/problem+json";

/**
 * The members of a problem document. `type` is a path-absolute reference (RFC 9457 §3.1.1): the same string on every
 * host, so that callers may compare it, and a page wherever the service answers.
 */
export function problemBody(
  requestId: string,
  code: ProblemCode,
  { detail, status, ...members }: Occurrence = {},
) {
  const kind = PROBLEMS[code];
  const contract = {
    type: `/problems/${code}`,
    title: kind.title,
    status: status ?? kind.status,
    detail: detail ?? `${kind.title}.`,
    error: code,
    retryable: kind.retryable,
    request_id: requestId,
  };
  // Once for the order in which a person reads them, and once so that no member can take the place of what is promised.
  return { ...contract, ...members, ...contract };
}

/** Answers a problem that is not stored. */
export function problemResponse(
  c: Context<AppEnv>,
  code: ProblemCode,
  { headers, ...occurrence }: Occurrence & { headers?: Record<string, string> } = {},
): Response {
  const body = problemBody(c.var.requestId, code, occurrence);
  const { retryAfterSeconds }: ProblemKind = PROBLEMS[code];
  const retryAfter = retryAfterSeconds !== undefined && { "retry-after": `${retryAfterSeconds}` };
  return new Response(JSON.stringify(body), {
    status: body.status,
    headers: { "content-type": PROBLEM_JSON, ...retryAfter, ...headers },
  });
}

/** A problem as a response that the ledger stores and replays, with the id of the request that met it first. */
export function storedProblem(
  requestId: string,
  code: ProblemCode,
  occurrence?: Occurrence,
): StoredResponse {
  const body = problemBody(requestId, code, occurrence);
  return {
    status: body.status,
    headers: { "content-type": PROBLEM_JSON },
    body: JSON.stringify(body),
  };
}

/** A mutation's business "no": it writes nothing, and is stored and replayed like any outcome. */
export function refuse(
  requestId: string,
  code: ProblemCode,
  occurrence?: Occurrence,
): Extract<Decision, { kind: "decided" }> {
  return { kind: "decided", response: storedProblem(requestId, code, occurrence), writes: [] };
}
