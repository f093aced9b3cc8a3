import { uuidv7 } from "uuidv7";

import type { Miss, Problem } from "./answer.ts";
import { describeRequest, type Draft, type KeyedApi, type ReadApi } from "./draft.ts";
import { sendUntilAnswered, type SendSettings, type Sent } from "./send.ts";

/** All but the first two have defaults. */
export type ClientOptions = {
  /** Where the service answers, for example `https://orders.example.com`. */
  baseUrl: string;
} & Pick<SendSettings, "apiKey"> &
  Partial<SendSettings>;

/** Something that shall happen once: a request, and the key that names it. */
export interface Operation<Wire> {
  /** Once stored, it lets `withKey` resume the operation, whatever becomes of this process. */
  readonly key: string;
  /**
   * Sends until there is a final answer, or tries, time or the signal put an end to it. To send again is always safe:
   * it is the same request under the same key. Rejects for bugs only, never for what a network or a service does.
   */
  send(options?: { signal?: AbortSignal }): Promise<Outcome<Wire>>;
}

export type Outcome<Wire> =
  | {
      kind: "done";
      body: Wire;
      /** Whether an earlier try had done it. */
      isReplayed: boolean;
    }
  /** The service's final no. */
  | { kind: "refused"; problem: Problem }
  /** It may have happened, and may yet. `send` again, or resume it by its key: either learns what became of it. */
  | { kind: "outcome_unknown"; key: string; cause: Miss };

export type Found<Wire> =
  | { kind: "done"; body: Wire }
  | { kind: "refused"; problem: Problem }
  | { kind: "unavailable"; cause: Miss };

/** Says which request an operation is, for example `(api) => api.orders.$post({ json })`. */
export type Describe<Wire> = (api: KeyedApi) => Promise<Draft<Wire>>;

// Anything else is refused by the service, or trimmed by fetch, and then it is another key.
const KEY = /^[\x21\x23-\x2b\x2d-\x7e]{1,255}$/;

// What else is in them, fetch refuses with an error that shows them whole.
const API_KEY = /^[\x21-\x7e]+$/;
const BASE_URL = /^https?:\/\/[^/@?#]+(\/[^?#]*)?$/i;

/**
 * A client that retries, and whose every POST has one key, made before the first try and kept through all of them.
 *
 *     const shop = createClient({ baseUrl, apiKey });
 *     const placing = shop.operation((api) => api.orders.$post({ json: { items } }));
 *     await store(placing.key); // where the operation shall outlive this process
 *     const outcome = await placing.send({ signal });
 *     switch (outcome.kind) {
 *       case "done": // outcome.body is the order
 *       case "refused": // outcome.problem.error says why
 *       case "outcome_unknown": // placing.send() again, or after a restart shop.withKey(key, ...).send()
 *     }
 */
export function createClient(options: ClientOptions) {
  const { baseUrl } = options;
  const settings = settingsOf(options);
  assertUsable(baseUrl, settings);

  function operationOf<Wire>(describe: Describe<Wire>, sent: Sent): Operation<Wire> {
    const described = describeRequest(baseUrl, describe);
    // A bug in it is thrown by `send`, to whom it matters.
    described.catch(() => undefined);
    return {
      key: sent.key,
      async send({ signal } = {}) {
        const request = await described;
        if (request.method === "GET") throw new Error("bug: a GET is no operation: read it");
        const heard = await sendUntilAnswered(request, { operation: sent, signal }, settings);
        if (heard.kind !== "unanswered") return heard as Outcome<Wire>;
        return { kind: "outcome_unknown", key: sent.key, cause: heard.cause };
      },
    };
  }

  return {
    /** Reads, and tries again where that can help. Needs no key. */
    async read<Wire>(
      describe: (api: ReadApi) => Promise<Draft<Wire>>,
      { signal }: { signal?: AbortSignal } = {},
    ): Promise<Found<Wire>> {
      const request = await describeRequest(baseUrl, describe);
      if (request.method !== "GET") throw new Error(`bug: a ${request.method} needs an operation`);
      const heard = await sendUntilAnswered(request, { signal }, settings);
      if (heard.kind !== "unanswered") return heard as Found<Wire>;
      return { kind: "unavailable", cause: heard.cause };
    },

    /** Writes an operation down, under a new key. Nothing is sent before `send`. */
    operation<Wire>(describe: Describe<Wire>): Operation<Wire> {
      // In the order of time, which the ledger's index likes, and made in insecure browser contexts too.
      return operationOf(describe, { key: uuidv7(), arrivals: 0 });
    },

    /**
     * Resumes an operation whose key was stored, within the service's retention window: a forgotten key is a new one.
     * Describe the same request: another one under its key is refused.
     */
    withKey<Wire>(key: string, describe: Describe<Wire>): Operation<Wire> {
      if (typeof key !== "string" || !KEY.test(key)) {
        throw new Error("bug: a key is 1 to 255 visible ASCII characters, neither comma nor quote");
      }
      return operationOf(describe, { key, arrivals: 1 });
    },
  };
}

function settingsOf({
  apiKey,
  // Their waits bridge 20 s of outage on the average.
  tries = 10,
  // More than the service takes: it may wait 5 s for another try, and 10 s for the payment provider.
  tryTimeoutMs = 20_000,
  // Twice the service's PENDING_TTL_MS: once that has passed after a crash, a retry executes.
  totalTimeoutMs = 60_000,
  firstBackoffMs = 200,
  maxBackoffMs = 10_000,
  fetch: send = (request) => fetch(request),
  random = Math.random,
}: ClientOptions): SendSettings {
  return {
    apiKey,
    tries,
    tryTimeoutMs,
    totalTimeoutMs,
    firstBackoffMs,
    maxBackoffMs,
    fetch: send,
    random,
  };
}

/** Tells no value: where it cannot be sent, a secret may be in it. */
function assertUsable(baseUrl: string, { apiKey, tries }: SendSettings): void {
  if (!API_KEY.test(apiKey)) throw new Error("bug: apiKey is not visible ASCII characters");
  if (!BASE_URL.test(baseUrl) || !URL.canParse(baseUrl)) {
    throw new Error("bug: baseUrl is no http(s) URL without user, query and fragment");
  }
  if (!(tries >= 1)) throw new Error("bug: tries is less than 1");
}
