import ky from "ky";

import { type Done, type Miss, Missed, type Problem, readAnswer, readFailure } from "./answer.ts";
import type { Draft } from "./draft.ts";

export interface SendSettings {
  /** The account's API key. */
  apiKey: string;
  /** How many tries of one `send` or `read` may fail. To find another try executing is no failure. */
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
  /** How many tries may have reached the ledger: all that were sent, but for those that were turned away before it. */
  arrivals: number;
}

export type Heard =
  | Done
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
  const deadline = performance.now() + settings.totalTimeoutMs;
  let isSent = false;
  let done: Done | undefined;
  let failures = 0;
  let waitMs = 0;
  const shouldRetry = ({ error, retryCount }: { error: Error; retryCount: number }) => {
    const miss = readFailure(error, signal);
    // That one ends with its lease at the latest. Until then it is only time that may run out.
    if (!isInProgress(miss)) failures += 1;
    waitMs = waitAfter(miss, retryCount, settings);
    // Told to come back too late, the caller hears so now.
    return canHelp(miss) && failures < settings.tries && performance.now() + waitMs < deadline;
  };
  const sendOnce = async (copy: Request) => {
    // The caller's fetch may know nothing of signals.
    copy.signal.throwIfAborted();
    isSent = true;
    if (operation) operation.arrivals += 1;
    const response = await settings.fetch(copy);
    const answer = await readAnswer(response, { isOperation: operation !== undefined });
    if (operation && wasTurnedAway(answer)) operation.arrivals -= 1;
    if (answer.kind !== "done") throw new Missed(answer);
    done = answer;
    return new Response();
  };
  try {
    await ky(request.url, {
      method: request.method,
      headers: headersOf(request, operation, settings),
      body: request.body,
      // Followed, a POST becomes a GET, or goes with its key to another origin.
      redirect: "manual",
      ...(signal && { signal }),
      timeout: settings.tryTimeoutMs,
      totalTimeout: settings.totalTimeoutMs,
      retry: {
        // `shouldRetry` counts.
        limit: Number.MAX_SAFE_INTEGER,
        methods: ["get", "post"],
        shouldRetry,
        delay: () => waitMs,
      },
      fetch: (copy) => sendOnce(copy as Request),
    });
    return done!;
  } catch (error) {
    const miss = readFailure(error, signal);
    // No network had a part in it.
    if (miss.kind === "network" && !isSent) throw error;
    // A 401 says that this try did nothing. It says nothing of an earlier one, whose answer was lost.
    const isAboutAnother = wasTurnedAway(miss) && operation !== undefined && operation.arrivals > 0;
    if (miss.kind !== "problem" || canHelp(miss) || isAboutAnother) {
      return { kind: "unanswered", cause: miss };
    }
    return { kind: "refused", problem: miss.problem };
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

/** Whether sending the same again can help. */
function canHelp(miss: Miss): boolean {
  switch (miss.kind) {
    case "problem":
      return miss.problem.retryable && !FINAL_STATUSES.has(miss.status);
    case "foreign":
      // A gateway's 5xx is a broken network: what became of the request behind it, it does not say.
      return miss.status === 429 || miss.status >= 500;
    case "garbled":
    case "network":
    case "timeout":
      return true;
    case "aborted":
      return false;
  }
}

function isInProgress(miss: Miss): boolean {
  return miss.kind === "problem" && miss.problem.error === "idempotency_key_in_progress";
}

/** Refused before the key was looked at: this try did nothing. */
function wasTurnedAway(answer: Done | Miss): boolean {
  return answer.kind === "problem" && !answer.isKeyed;
}

function waitAfter(miss: Miss, retryCount: number, settings: SendSettings): number {
  const { firstBackoffMs, maxBackoffMs, random } = settings;
  const backoffMs = random() * Math.min(maxBackoffMs, firstBackoffMs * 2 ** (retryCount - 1));
  const toldMs = "retryAfterMs" in miss ? miss.retryAfterMs : undefined;
  if (toldMs === undefined) return backoffMs;
  // "Now", said again and again, would use up all tries at once.
  return retryCount === 1 ? toldMs : Math.max(toldMs, backoffMs);
}
