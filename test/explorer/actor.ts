import { createHash } from "node:crypto";

import { bindingTo, type Result } from "./database.ts";
import type { Message } from "./message.ts";
import type { Call } from "./provider.ts";

/** What a client gets to see. */
export interface Answer {
  status: number;
  isReplayed: boolean;
  /** Whether asking again can help: no answer of this kind is the last word. */
  isRetryable: boolean;
  /** The earliest that another attempt may be there to execute, ms. */
  takeoverAfterMs: number;
  /** Status, stored headers and body: all that a replay has to repeat. */
  bytes: string;
  /** The stable code of a problem. */
  error: string | null;
  /** The id of what was made. */
  id: string | null;
}

export type Send = (message: Message) => Promise<unknown>;

interface Parked {
  message: Message;
  tell: (result: unknown) => void;
  fail: (error: Error) => void;
}

export type Outcome = { result: unknown } | { error: Error };

interface ActorOptions {
  wrap: (send: Send) => Send;
  /** Whether a message waits for the world. Others are carried out where they are sent: their order does not matter. */
  parks: (message: Message) => boolean;
  carryOut: (message: Message) => Outcome;
}

export type Actor = ReturnType<typeof openActor>;

/**
 * One attempt somewhere in the world: a request in an isolate of its own, or the reconciler. It runs until it sends a
 * message that parks, and then waits until it is told what became of it.
 *
 * @param wrap Stands between the product and the world: where a mutant takes a safeguard out.
 */
export function openActor(name: string, { wrap, parks, carryOut }: ActorOptions) {
  let parked: Parked | null = null;
  let turn = Promise.withResolvers<void>();
  let state: "absent" | "working" | "done" | "dead" = "absent";
  let startedAt = 0;
  let uploadedAt: number | null = null;
  let ids = 0;
  /** All that it has been told: two actors of one name and one memory go on in the same way. */
  let memory = "";

  const send: Send = wrap(async (message) => {
    // A dead actor may still have timers. Nothing that it does is heard any more.
    if (state === "dead") return new Promise(() => {});
    if (!parks(message)) {
      const outcome = carryOut(message);
      if ("error" in outcome) throw outcome.error;
      return outcome.result;
    }
    return new Promise((tell, fail) => {
      if (parked !== null) throw new Error(`bug: ${name} sends two messages at once`);
      parked = { message, tell, fail };
      turn.resolve();
    });
  });

  return {
    name,
    d1: bindingTo((statements) => send({ to: "d1", statements }) as Promise<Result[]>),
    sandbox: { getByName: () => ({ fetch: sendCall(send) }) } as unknown as Env["SANDBOX"],
    /** A body that arrives when the world lets it. */
    upload: (body: string) =>
      new ReadableStream({
        async pull(controller) {
          await send({ to: "upload" });
          controller.enqueue(new TextEncoder().encode(body));
          controller.close();
        },
      }),
    /** A uuid of its own: the same ones in every schedule. */
    newId: () => {
      ids += 1;
      const node = digest(name, "hex").slice(0, 8) + String(ids).padStart(4, "0");
      return `00000000-0000-7000-8000-${node}`;
    },
    parked: () => parked?.message ?? null,
    startedAt: () => startedAt,
    /** When it had all that it needs to claim. */
    claimableSince: () => uploadedAt ?? startedAt,
    /** Says all that decides how it goes on. */
    state: () => (state === "working" ? memory : state),

    /** Its next request begins. */
    receive: (at: number) => {
      startedAt = at;
      uploadedAt = null;
    },

    /** Begins, and goes on to its first message. */
    async start(at: number, work: () => Promise<void>): Promise<void> {
      state = "working";
      startedAt = at;
      memory = digest([at]);
      const end = async () => {
        await work();
        state = "done";
      };
      end().then(
        () => turn.resolve(),
        (error: unknown) => turn.reject(error),
      );
      await turn.promise;
    },

    /** Is told what became of its message, and goes on to the next. */
    async resume(at: number, outcome: Outcome): Promise<void> {
      const { message, tell, fail } = parked!;
      parked = null;
      turn = Promise.withResolvers();
      if (message.to === "upload") uploadedAt = at;
      const isTold = "result" in outcome;
      memory = digest([memory, at, isTold ? outcome.result : outcome.error.message]);
      if (isTold) tell(outcome.result);
      else fail(outcome.error);
      await turn.promise;
    },

    die(): void {
      state = "dead";
      parked = null;
    },
  };
}

export function digest(value: unknown, encoding: "base64" | "hex" = "base64"): string {
  return createHash("sha1").update(JSON.stringify(value)).digest(encoding);
}

function sendCall(send: Send) {
  return async (url: string, { method, headers, body }: RequestInit): Promise<Response> => {
    const call: Call = {
      method: method!,
      path: new URL(url).pathname,
      idempotencyKey: new Headers(headers).get("idempotency-key"),
      params: new URLSearchParams((body ?? "") as string),
    };
    const reply = (await send({ to: "provider", call })) as { status: number; body: string };
    return new Response(reply.body, {
      status: reply.status,
      headers: { "content-type": "application/json" },
    });
  };
}

export async function answerOf(response: Response): Promise<Answer> {
  const { status, headers } = response;
  const body = await response.text();
  const json = JSON.parse(body) as Record<string, unknown>;
  return {
    status,
    isReplayed: headers.get("idempotent-replayed") === "true",
    isRetryable: json["retryable"] === true,
    takeoverAfterMs: Number(json["takeover_after_ms"] ?? 0),
    bytes: [status, headers.get("content-type"), headers.get("location"), body].join("\n"),
    error: (json["error"] as string | undefined) ?? null,
    id: (json["id"] as string | undefined) ?? null,
  };
}
