import { isHTTPError, isNetworkError, isTimeoutError } from "ky";

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
  /** Somebody else answered: a gateway's error page, a captive portal. */
  | { kind: "foreign"; status: number; body: unknown; retryAfterMs: number | undefined }
  | { kind: "network"; error: unknown }
  | { kind: "timeout" }
  | { kind: "aborted"; reason: unknown };

const REPLAYED = "idempotent-replayed";

/** Reads a 2xx. A keyed route says whether it replays; what does not is another's answer, for example after a redirect. */
export async function readSuccess(
  response: Response,
  { isKeyed }: { isKeyed: boolean },
): Promise<{ kind: "done"; body: unknown; isReplayed: boolean } | Miss> {
  const { status, headers } = response;
  const text = await response.text();
  const foreign = { kind: "foreign" as const, status, body: text, retryAfterMs: undefined };
  if (isKeyed && !headers.has(REPLAYED)) return foreign;
  try {
    const body: unknown = text === "" ? undefined : JSON.parse(text);
    return { kind: "done", body, isReplayed: headers.get(REPLAYED) === "true" };
  } catch {
    return foreign;
  }
}

/** Reads what ky threw. ky's own errors hold the request, and in it the API key, so they are not handed on. */
export function readFailure(error: unknown, signal: AbortSignal | undefined): Miss {
  if (signal?.aborted === true) return { kind: "aborted", reason: signal.reason };
  if (isTimeoutError(error)) return { kind: "timeout" };
  if (isNetworkError(error)) return { kind: "network", error: error.cause };
  if (!isHTTPError(error)) return { kind: "network", error };

  const { data, response } = error;
  const { status, headers } = response;
  const told = retryAfterMs(headers.get("retry-after"));
  if (!isProblem(data)) return { kind: "foreign", status, body: data, retryAfterMs: told };
  // Finer than the header, which counts in whole seconds.
  const finer = data["retry_after_ms"];
  return {
    kind: "problem",
    status,
    problem: data,
    isKeyed: headers.has(REPLAYED),
    retryAfterMs: typeof finer === "number" ? finer : told,
  };
}

function isProblem(data: unknown): data is Problem {
  if (typeof data !== "object" || data === null) return false;
  const { error, retryable } = data as Partial<Problem>;
  return typeof error === "string" && typeof retryable === "boolean";
}

/** Seconds, or a date (RFC 9110 §10.2.3). */
function retryAfterMs(header: string | null): number | undefined {
  if (header === null) return undefined;
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
