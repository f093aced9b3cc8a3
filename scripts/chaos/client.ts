import { setTimeout as sleep } from "node:timers/promises";

import { type Answer, type KeyedRequest, postTo } from "../demo-shop.ts";
import type { Outcome, Recorder } from "./history.ts";

/** Longest wait for one answer, ms: many times what the slowest takes. */
const ANSWER_LIMIT_MS = 10_000;
/** Before what is undecided is sent again, ms: impatient, so that a dead owner's key is pressed on. */
const PAUSE_MS = 150;

/** An answer that is final, and to what. */
export interface Decided {
  request: KeyedRequest;
  answer: Answer;
}

export type Client = ReturnType<typeof openClient>;

/**
 * Sends requests as clients should that do not know what became of the one before, and has each of them recorded.
 *
 * @param at Where the service is: it may move when it is started again.
 */
export function openClient(at: () => string, recorder: Recorder) {
  const sent = new Map<string, KeyedRequest>();
  const decided: Decided[] = [];

  async function send(request: KeyedRequest, client: string) {
    const key = keyOf(request);
    const contents = `${request.path} ${request.body}`;
    sent.set(`${key} ${contents}`, request);
    let answer: Answer | undefined;
    const outcome = await recorder.record({ key, request: contents, client }, async () => {
      try {
        const signal = AbortSignal.timeout(ANSWER_LIMIT_MS);
        answer = await postTo(at(), request, { signal });
      } catch (error) {
        return { kind: "undecided", why: String((error as Error).cause ?? error) };
      }
      return outcomeOf(answer);
    });
    if (outcome.kind === "decided") decided.push({ request, answer: answer! });
    return { outcome, answer };
  }

  return {
    /** Every request that was ever sent, once each. */
    sent,
    /** Every final answer. */
    decided,
    /** @returns the final answer, or undefined when the client has given up, or was told to stop. */
    async sendUntilDecided(
      request: KeyedRequest,
      { client, tries, signal }: { client: string; tries: number; signal?: AbortSignal },
    ): Promise<Answer | undefined> {
      for (let left = tries; left > 0; left--) {
        if (signal?.aborted === true) return undefined;
        const { outcome, answer } = await send(request, client);
        if (outcome.kind === "decided" || outcome.kind === "reused") return answer;
        await sleep(Number(answer?.json["retry_after_ms"] ?? PAUSE_MS));
      }
      return undefined;
    },
  };
}

/** Whose key it is, and which. */
export function keyOf({ account, key }: Pick<KeyedRequest, "account" | "key">): string {
  return `${account.id} ${key}`;
}

function outcomeOf({ status, isReplay, bytes, json }: Answer): Outcome {
  const error = json["error"];
  // Not the service's own words: what stands before it speaks of a runtime that is gone.
  if (status >= 400 && error === undefined) return { kind: "undecided", why: bytes };
  if (error === "idempotency_key_in_progress") return { kind: "in_progress" };
  if (error === "idempotency_key_reused") return { kind: "reused" };
  if (json["retryable"] === true) return { kind: "undecided", why: String(error) };
  return { kind: "decided", isReplay, bytes };
}
