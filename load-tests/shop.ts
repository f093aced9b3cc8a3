import http from "k6/http";
import { Counter, Trend } from "k6/metrics";
import { setTimeout } from "k6/timers";

import { ADMIN_TOKEN, API_KEY, BASE_URL } from "./settings.ts";

/**
 * Every answer to a keyed request, by `kind` (what was asked for, the script's word) and `was`. A sum over one tag is a
 * metric of its own once a threshold names it: `answers{kind:order,was:fresh}`.
 */
export const answers = new Counter("answers");
/** How long it took, by the same tags. */
const answerMs = new Trend("answer_ms", true);

// The contract's own refusals are no failures of HTTP: without this, k6 counts every 409 of a storm as one.
http.setResponseCallback(http.expectedStatuses({ min: 200, max: 299 }, 402, 409, 422, 503));

/** Most tries of one operation. A retry waits as long as it is told to, a second at most, so that this is a minute. */
const MAX_TRIES = 60;

/** `reused`: the key names another request. `unknown`: 503, and only the same request again finds out. */
export type Was = "fresh" | "replay" | "in_progress" | "reused" | "unknown" | "unexpected";

export interface Answer {
  status: number;
  was: Was;
  /** All that a replay must give back: status, stored headers, body. */
  bytes: string;
  headers: Record<string, string>;
  /** The body parsed; empty when it is not a JSON object. */
  json: Record<string, unknown>;
  /** Of what was made; empty when nothing was, which is counted as unexpected: go no further. */
  id: string;
}

export interface KeyedRequest {
  path: string;
  key: string;
  /** Undefined: none. */
  body: object | undefined;
  kind: string;
  /** The status that its outcome has. 201, unless given. */
  outcome?: number;
}

/** Sends it once, and counts the answer. */
export async function post({ path, key, body, kind, outcome = 201 }: KeyedRequest) {
  const startedAt = Date.now();
  const { status, headers, text } = await send("POST", path, {
    body: body === undefined ? null : JSON.stringify(body),
    headers: { "Idempotency-Key": key },
    tags: { kind },
  });
  const json = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {};
  const was = wasOf({ status, error: json["error"], headers, outcome });
  answers.add(1, { kind, was });
  answerMs.add(Date.now() - startedAt, { kind, was });
  const stored = [status, headers["Content-Type"], headers["Location"]].join("\n");
  const id = typeof json["id"] === "string" ? json["id"] : "";
  return { status, was, headers, json, id, bytes: `${stored}\n${text}` } satisfies Answer;
}

function wasOf(answer: {
  status: number;
  error: unknown;
  headers: Record<string, string>;
  outcome: number;
}): Was {
  const { status, error, headers, outcome } = answer;
  if (status === outcome) return headers["Idempotent-Replayed"] === "true" ? "replay" : "fresh";
  if (error === "idempotency_key_in_progress") return "in_progress";
  if (error === "idempotency_key_reused") return "reused";
  if (error === "outcome_unknown") return "unknown";
  return "unexpected";
}

/**
 * Sends the same request again until its outcome is known, as every client of this API should. An operation that comes to
 * no end is unexpected, too.
 */
export async function postUntilFinal(request: KeyedRequest): Promise<Answer> {
  let answer = await post(request);
  for (let tries = 1; tries < MAX_TRIES && isRetryable(answer); tries++) {
    await pause(retryAfterMs(answer));
    answer = await post(request);
  }
  if (!isRetryable(answer)) return answer;
  answers.add(1, { kind: request.kind, was: "unexpected" });
  return { ...answer, was: "unexpected" };
}

function isRetryable({ was }: Answer): boolean {
  return was === "in_progress" || was === "unknown";
}

function retryAfterMs({ json, headers }: Answer): number {
  return Number(json["retry_after_ms"] ?? Number(headers["Retry-After"] ?? 1) * 1000);
}

/** The order of one unit that stands for a key throughout these scripts: the same name, the same request. */
export function orderOf(product: string, name: string): KeyedRequest {
  const body = { items: [{ product_id: product, quantity: 1 }], reference: name };
  return { path: "/orders", key: name, body, kind: "order" };
}

/** @param order Its id. */
export function paymentOf(
  order: string,
  { name, method = "pm_card_visa" }: { name: string; method?: string },
): KeyedRequest {
  const path = `/orders/${order}/payments`;
  return { path, key: `${name}-pay`, body: { payment_method: method }, kind: "payment" };
}

/** @throws when the answer is not 200: what is read here is needed to go on. */
export async function read(path: string, who: "account" | "operator" = "account") {
  const apiKey = who === "operator" ? ADMIN_TOKEN : API_KEY;
  const { status, text } = await send("GET", path, {
    headers: { Authorization: `Bearer ${apiKey}` },
    tags: { kind: "read" },
  });
  if (status !== 200) throw new Error(`GET ${path} answered ${status}: ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}

export interface Sent {
  status: number;
  /** By canonical name, as k6 gives them: `Retry-After`. */
  headers: Record<string, string>;
  text: string;
}

/** A request of the account. A header of the same name replaces one that it would have. Status 0: no answer came. */
export async function send(
  method: string,
  path: string,
  options: { body?: string | null; headers?: Record<string, string>; tags: { kind: string } },
): Promise<Sent> {
  const { body = null, tags } = options;
  const response = await http.asyncRequest(method, `${BASE_URL}${path}`, body, {
    headers: {
      Authorization: `Bearer ${API_KEY}`,
      ...(body !== null && { "Content-Type": "application/json" }),
      ...options.headers,
    },
    // Addresses hold ids: without a name of its own, each would be a series in k6's report.
    tags: { ...tags, name: `${method} ${tags.kind}` },
    responseType: "text",
    redirects: 0,
  });
  // Where no answer came there is nothing to be read, whatever k6's types say.
  const headers = (response.headers as Record<string, string> | null) ?? {};
  const text = typeof response.body === "string" ? response.body : "";
  return { status: response.status, headers, text };
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
