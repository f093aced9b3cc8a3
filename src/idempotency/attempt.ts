import type { StoredResponse } from "./decide.ts";
import type { Database, Read, Write } from "./ledger.ts";
import type { Decision, Interrupted, Operation } from "./mutation.ts";

/** One request under one key, stripped of HTTP: the whole protocol runs on this. */
export interface Attempt {
  db: Database;
  ports: Ports;
  settings: ExecuteSettings;
  principal: string;
  key: string;
  fingerprint: string;
  method: string;
  path: string;
  /** How long to wait for another attempt's outcome before answering that it is in progress, ms. */
  waitMs: number;
  /** Builds the queries anew for each batch that carries them. */
  reads(): readonly Read[];
  run(context: {
    reads: ReadRows;
    operation: Operation;
    now: number;
    checkpoint: (writes: readonly Write[]) => Promise<{ kind: "held" } | Interrupted>;
  }): Decision | Promise<Decision>;
  /** What to store instead of a response over the limit. */
  responseTooLarge(): StoredResponse;
  /** Filled in along the way, for the log line and Server-Timing. */
  trace: Trace;
}

export interface Ports {
  /** Epoch ms. */
  now: () => number;
  /** A uuid v7: operation ids and owners. */
  newId: () => string;
  sleep: (ms: number) => Promise<void>;
}

export interface ExecuteSettings {
  pendingTtlMs: number;
  retentionMs: number;
  responseLimitBytes: number;
}

export interface Trace {
  /** Milliseconds spent in each phase, summed over repeats. */
  phases: Partial<Record<"claim" | "run" | "commit", number>>;
  operation?: Operation;
  runs: number;
  /** How often another attempt took the claim over while this one was working: more than once only if it waits. */
  timesFencedOut: number;
  error?: unknown;
}

export type Outcome =
  | { kind: "executed"; response: StoredResponse }
  | { kind: "replayed"; response: StoredResponse }
  | { kind: "in_progress"; takeoverAfterMs: number }
  | { kind: "reused" }
  | { kind: "vanished" }
  /** Nothing happened and the claim was released. */
  | { kind: "failed" }
  /** Something may have happened; the next try finds out. */
  | { kind: "outcome_unknown" }
  /** The database could not be reached, or shed the load. */
  | { kind: "unavailable" };

/** What the reads found, one entry per query. `mutation` knows their types; the protocol does not need them. */
export type ReadRows = readonly unknown[];
