import ky from "ky";

import { type Miss, type Problem, readFailure, readSuccess } from "./answer.ts";
import type { Draft } from "./draft.ts";

export interface SendSettings {
  /** The account's API key. */
  apiKey: string;
  /** How often one `send` or `read` tries at most. */
  tries: number;
  /** How long one try may take. */
  tryTimeoutMs: number;
  /** How long one `send` or `read` may take, the waits between its tries included. */
  totalTimeoutMs: number;
  /** Longest wait before the second try, unless the service says when to come back. It doubles with each try. */
  firstBackoffMs: number;
  maxBackoffMs: number;
  /** What carries a request, for example a service binding. */
  fetch: (request: Request) => Promise<Response>;
  /** From 0 to 1: spreads the waits, lest clients that failed together come back together. */
  random: () => number;
}

/** What is known of an operation between its sendings. */
export interface Sent {
  key: string;
  /** Whether an earlier try may have reached the ledger. */
  mayHaveArrived: boolean;
}

export type Heard =
  | { kind: "done"; body: unknown; isReplayed: boolean }
  | { kind: "refused"; problem: Problem }
  | { kind: "unanswered"; cause: Miss };

/**
 * The part of a try's time that the service may spend waiting for another try that is still executing, before it answers
 * 409 (RFC 7240 §4.3). The rest is for the operation itself.
 */
const WAIT_SHARE = 1 / 4;

// Whatever the problem says: the request is wrong, or has been decided.
const FINAL_STATUSES = new Set([400, 402, 422]);

/**
 * Sends the same bytes, under the same key, until there is a final answer or nothing is left to try with. `operation` is
 * undefined for a read.
 */
export async function sendUntilAnswered(
  request: Draft<unknown>,
  { operation, signal }: { operation?: Sent; signal: AbortSignal | undefined },
  settings: SendSettings,
): Promise<Heard> {
  const deadline = Date.now() + settings.totalTimeoutMs;
  let isSent = false;
  let waitMs = 0;
  const shouldRetry = ({ error, retryCount }: { error: Error; retryCount: number }) => {
    const miss = readFailure(error, signal);
    waitMs = waitAfter(miss, retryCount, settings);
    // Told to come back too late, the caller hears so now.
    if (!canHelp(miss) || Date.now() + waitMs >= deadline) return false;
    remember(operation, miss);
    return true;
  };
  try {
    const response = await ky(request.url, {
      method: request.method,
      headers: headersOf(request, operation, settings),
      body: request.body,
      ...(signal && { signal }),
      timeout: settings.tryTimeoutMs,
      totalTimeout: settings.totalTimeoutMs,
      retry: {
        limit: settings.tries - 1,
        methods: ["get", "post"],
        shouldRetry,
        delay: () => waitMs,
      },
      fetch: (attempt) => {
        isSent = true;
        return fetchWhole(attempt as Request, settings);
      },
    });
    const heard = await readSuccess(response, { isKeyed: operation !== undefined });
    return heard.kind === "done" ? heard : { kind: "unanswered", cause: heard };
  } catch (error) {
    // No network had a part in it.
    if (!isSent) throw error;
    const miss = readFailure(error, signal);
    const isFinal = miss.kind === "problem" && !canHelp(miss);
    // A 401 says that this try did nothing. It says nothing of an earlier one, whose answer was lost.
    const isAboutAnother = operation?.mayHaveArrived === true && wasTurnedAway(miss);
    remember(operation, miss);
    if (isFinal && !isAboutAnother) return { kind: "refused", problem: miss.problem };
    return { kind: "unanswered", cause: miss };
  }
}

function headersOf(
  { headers }: Draft<unknown>,
  operation: Sent | undefined,
  { apiKey, tryTimeoutMs }: SendSettings,
): Headers {
  const all = new Headers(headers);
  all.set("authorization", `Bearer ${apiKey}`);
  if (operation === undefined) return all;
  all.set("idempotency-key", operation.key);
  all.set("prefer", `wait=${Math.floor((tryTimeoutMs * WAIT_SHARE) / 1000)}`);
  return all;
}

/** A body that breaks off, or never ends, is a try that failed: ky itself looks no further than the head of a success. */
async function fetchWhole(request: Request, settings: SendSettings): Promise<Response> {
  request.signal.throwIfAborted();
  const response = await settings.fetch(request);
  const { status, headers } = response;
  const bytes = await response.arrayBuffer();
  return new Response(bytes.byteLength === 0 ? null : bytes, { status, headers });
}

/** Whether sending the same again can help. */
function canHelp(miss: Miss): boolean {
  switch (miss.kind) {
    case "problem":
      return miss.problem.retryable && !FINAL_STATUSES.has(miss.status);
    case "foreign":
      // A gateway's 5xx is a broken network: what became of the request behind it, it does not say.
      return miss.status === 429 || miss.status >= 500;
    case "network":
    case "timeout":
      return true;
    case "aborted":
      return false;
  }
}

/** Refused before the key was looked at: this try did nothing. */
function wasTurnedAway(miss: Miss): boolean {
  return miss.kind === "problem" && !miss.isKeyed;
}

function remember(operation: Sent | undefined, miss: Miss): void {
  if (operation !== undefined && !wasTurnedAway(miss)) operation.mayHaveArrived = true;
}

function waitAfter(miss: Miss, retryCount: number, settings: SendSettings): number {
  if ("retryAfterMs" in miss && miss.retryAfterMs !== undefined) return miss.retryAfterMs;
  const { firstBackoffMs, maxBackoffMs, random } = settings;
  return random() * Math.min(maxBackoffMs, firstBackoffMs * 2 ** (retryCount - 1));
}
