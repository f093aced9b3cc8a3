import type { createRoute, z } from "@hono/zod-openapi";

import type { StoredResponse } from "./decide.ts";
import type { Commit, Database, Read, ReadResults, Write } from "./ledger.ts";

/** What a keyed POST does, as data: the ledger decides whether and when it takes effect. */
export interface Mutation<Route extends RouteShape, Reads extends readonly Read[]> {
  route: Route;
  /** Queries that ride along with the claim. Select no two columns of one name: D1's batch loses one of them. */
  reads(context: ReadContext<Route>): Reads;
  /**
   * Decides. It may run more than once for one key (a takeover, or fresh reads after a constraint said no), so it
   * writes nothing itself and derives every id from `operation.id`. It awaits an outside system only after `checkpoint`.
   */
  run(context: RunContext<Route, Reads>): Decision | Promise<Decision>;
}

export interface ReadContext<Route extends RouteShape> {
  db: Database;
  principal: string;
  key: string;
  body: BodyOf<Route>;
  params: ParamsOf<Route>;
}

export interface RunContext<
  Route extends RouteShape,
  Reads extends readonly Read[],
> extends ReadContext<Route> {
  reads: ReadResults<Reads>;
  operation: Operation;
  /** Epoch ms at the start of this run. */
  now: number;
  /** For answers that name the request that caused them. */
  requestId: string;
  /**
   * Commits intermediate writes behind the fence and renews the lease. Unless it answers `held`, return what it
   * answered: the claim is lost, or the writes were refused and the mutation runs again on fresh reads.
   */
  checkpoint: (writes: readonly Write[]) => Promise<{ kind: "held" } | Interrupted>;
}

/** The logical thing that a key names. */
export interface Operation {
  /** uuid v7 that survives takeovers. */
  id: string;
  /** How many claims this operation has seen, this one included. */
  generation: number;
}

export type Decision =
  | { kind: "decided"; response: StoredResponse; writes: readonly Write[] }
  /** An outside call may have happened. The claim stays pending and the next try continues the operation. */
  | { kind: "outcome_unknown"; error?: unknown }
  | Interrupted;

export interface Interrupted {
  kind: "interrupted";
  by: Exclude<Commit, { kind: "committed" }>;
}

/** Ties a mutation to its route, from whose schemas the types of `body` and `params` follow. */
export function mutation<const Route extends RouteShape, const Reads extends readonly Read[]>(
  route: Route,
  definition: Omit<Mutation<Route, Reads>, "route">,
): Mutation<Route, Reads> {
  return { route, ...definition };
}

export type RouteShape = Parameters<typeof createRoute>[0];

type BodyOf<Route> = Route extends {
  request: {
    body: { content: { "application/json": { schema: infer Schema extends z.ZodType } } };
  };
}
  ? z.output<Schema>
  : undefined;

type ParamsOf<Route> = Route extends { request: { params: infer Schema extends z.ZodType } }
  ? z.output<Schema>
  : Record<string, never>;
