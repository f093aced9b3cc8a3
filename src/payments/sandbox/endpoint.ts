import type { Reply } from "./errors.ts";
import type { Fault } from "./steering.ts";

/** What an endpoint has at hand. */
export interface Scope {
  sql: SqlStorage;
  now: () => number;
  newId: (prefix: string) => string;
  requestId: string;
  idempotencyKey: string | null;
  /** Where events are sent. Undefined: nowhere. */
  webhookUrl: string | undefined;
}

/**
 * What a POST is about to do. `refused`: its parameters are wrong by themselves, so nothing is stored under its key.
 * `ready`: from here on the outcome is stored, whatever it is. `run` is one transaction and may not wait.
 */
export type Plan =
  | { kind: "refused"; reply: Reply }
  | { kind: "ready"; fault: Fault; run: () => Reply };

export function randomId(prefix: string): string {
  return `${prefix}_${crypto.randomUUID().replaceAll("-", "")}`;
}
