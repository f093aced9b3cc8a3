import { isNetworkError, isTimeoutError } from "ky";

import type { ProblemCode, PROBLEMS } from "../problems.ts";

/**
 * Why the service said no, by its `error` code. What one code adds (`products`, `retry_after_ms`) is described on the
 * page that `type` leads to. A newer service may know codes that these types do not.
 */
export type Problem = { [Code in ProblemCode]: ProblemOf<Code> }[ProblemCode];

interface ProblemOf<Code extends ProblemCode> {
  type: string;
  title: string;
  status: number;
  detail: string;
  error: Code;
  /** Whether the same request, under the same key, can succeed later. */
  retryable: (typeof PROBLEMS)[Code]["retryable"];
  request_id: string;
  [member: string]: unknown;
}

/** What the service did for the try. */
export interface Done {
  kind: "done";
  body: unknown;
  isReplayed: boolean;
}

/** How a try ended that did not succeed. */
export type Miss =
  | {
      kind: "problem";
      status: number;
      problem: Problem;
      /** Whether the request got as far as its key: the service says so of every keyed answer. */
      isKeyed: boolean;
      /** When the service wants to be asked again, if it said so. */
      retryAfterMs: number | undefined;
    }
  /**
   * `garbled` is the service's answer, of which not all has arrived. `foreign` is somebody else's: a gateway's error page,
   * a captive portal, a redirect, which has status 0 in a browser.
   */
  | { kind: "garbled" | "foreign"; status: number; body: unknown; retryAfterMs: number | undefined }
  | { kind: "network"; error: unknown }
  | { kind: "timeout" }
  | { kind: "aborted"; reason: unknown };

/** Carries a miss through ky, which tries again for what is thrown. */
export class Missed extends Error {
  readonly miss: Miss;
  constructor(miss: Miss) {
    super(miss.kind);
    this.miss = miss;
  }
}

const REPLAYED = "idempotent-replayed";

/**
 * Reads an answer to its end. Every keyed answer has Idempotent-Replayed, so one without it came from somebody else. The
 * service answers with JSON objects only, and no part of one is an object: so what broke off shows.
 */
export async function readAnswer(
  response: Response,
  { isOperation }: { isOperation: boolean },
): Promise<Done | Miss> {
  const { status, ok, headers } = response;
  const text = await response.text();
  const body = parsed(text);
  const isKeyed = headers.has(REPLAYED);
  const told = retryAfterMs(headers.get("retry-after"));

  if (ok && isObject(body) && (isKeyed || !isOperation)) {
    return { kind: "done", body, isReplayed: headers.get(REPLAYED) === "true" };
  }
  if (!ok && isProblem(body)) {
    // Finer than the header, which counts in whole seconds.
    const finer = body["retry_after_ms"];
    const waitMs = typeof finer === "number" && finer >= 0 ? finer : told;
    return { kind: "problem", status, problem: body, isKeyed, retryAfterMs: waitMs };
  }
  const isPart = body === undefined && /\bjson\b/i.test(headers.get("content-type") ?? "");
  const kind = isKeyed || isPart ? "garbled" : "foreign";
  return { kind, status, body: body ?? text, retryAfterMs: told };
}

/** Reads what ky threw. Its own errors hold the request, and in it the API key, so they are not handed on. */
export function readFailure(error: unknown, signal: AbortSignal | undefined): Miss {
  if (error instanceof Missed) return error.miss;
  if (signal?.aborted === true) return { kind: "aborted", reason: signal.reason };
  if (isTimeoutError(error)) return { kind: "timeout" };
  return { kind: "network", error: isNetworkError(error) ? error.cause : error };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(body: unknown): body is object {
  return typeof body === "object" && body !== null && !Array.isArray(body);
}

function isProblem(body: unknown): body is Problem {
  if (!isObject(body)) return false;
  const { error, retryable } = body as Partial<Problem>;
  return typeof error === "string" && typeof retryable === "boolean";
}

const HTTP_DATE = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/;

/** Seconds, or a date (RFC 9110 §10.2.3). `Date.parse` takes more than that for a date: "-5" is one in 2001. */
function retryAfterMs(header: string | null): number | undefined {
  if (header === null) return undefined;
  if (/^\d+$/.test(header)) return Number(header) * 1000;
  const atMs = HTTP_DATE.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - Date.now());
}
