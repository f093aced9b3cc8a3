import type { RouteHandler } from "@hono/zod-openapi";
import type { Context, Env } from "hono";

import type { ExecuteSettings, Outcome, Ports, Trace } from "./attempt.ts";
import { fingerprintRequest, type FingerprintMode } from "./fingerprint.ts";
import { countFencedOut } from "./figures.ts";
import { execute } from "./idempotent.ts";
import type { StoredResponse } from "./decide.ts";
import type { Database, Read, ReadResults } from "./ledger.ts";
import type { Mutation, ReadContext, RouteShape } from "./mutation.ts";
import { preferredWaitSeconds } from "./prefer.ts";
import { requestSweeper, type SweepSettings } from "./sweep.ts";

/** What the ledger needs to know of the service around it. */
export interface Service<E extends Env> extends Ports {
  /** Whose key this is, and under which settings. Called after authentication and validation. */
  scopeOf(c: Context<E>): Scope;
  /** Renders what is not a stored response: only the service knows its error format. */
  refuse(c: Context<E>, refusal: Refusal): Response;
  /** What to store when a response is over the limit. */
  responseTooLarge(requestId: string): StoredResponse;
  /** Called once an outcome is known, for logs and Server-Timing. */
  observe(c: Context<E>, seen: { outcome: Outcome["kind"]; trace: Trace }): void;
  /** Called when the sweep after a request evicted something, or failed. */
  observeSweep(c: Context<E>, seen: { evicted: number } | { error: unknown }): void;
}

interface Scope {
  db: Database;
  principal: string;
  key: string;
  /** What of the body identifies the request. All of its bytes, unless given. */
  identifyingBody?: Uint8Array | undefined;
  requestId: string;
  settings: ExecuteSettings & SweepSettings & { fingerprintMode: FingerprintMode };
}

export type Refusal = Exclude<Outcome, { response: StoredResponse }>;

// RFC 9110 §15: an answer with one of these has no content.
const NULL_BODY_STATUSES = new Set([204, 205, 304]);

const keyedHandlers = new WeakSet<object>();

/** Whether `idempotency` made this handler: lets a test prove that no mutation bypasses the ledger. */
export function isKeyed(handler: object): boolean {
  return keyedHandlers.has(handler);
}

/** Makes the function that turns a mutation into a Hono handler whose every effect goes through the ledger. */
export function idempotency<E extends Env>(service: Service<E>) {
  const sweepAfterRequest = requestSweeper(service);

  return function idempotent<Route extends RouteShape, const Reads extends readonly Read[]>(
    mutation: Mutation<Route, Reads> | ((c: Context<E>) => Mutation<Route, Reads>),
  ): RouteHandler<Route, E> {
    // The route's own types describe what is read and answered here; Hono cannot infer them through a stored response.
    // oxlint-disable-next-line typescript/no-explicit-any
    const handler = async (c: Context<E, any, any>): Promise<Response> => {
      const scope = service.scopeOf(c);
      const waitSeconds = preferredWaitSeconds(c.req.header("prefer"));
      const trace: Trace = { phases: {}, runs: 0, timesFencedOut: 0 };
      const work = executeMutation(service, c, {
        scope,
        mutation: typeof mutation === "function" ? mutation(c) : mutation,
        trace,
        waitMs: waitSeconds * 1000,
      });
      // A client that hangs up must not stop the work between the claim and the commit.
      c.executionCtx.waitUntil(work.catch(() => undefined));
      const outcome = await work;

      service.observe(c, { outcome: outcome.kind, trace });
      c.executionCtx.waitUntil(countFencedOut(scope.db, trace.timesFencedOut));
      c.executionCtx.waitUntil(
        sweepAfterRequest(scope).then(
          (evicted) => evicted > 0 && service.observeSweep(c, { evicted }),
          (error: unknown) => service.observeSweep(c, { error }),
        ),
      );
      const response = answer(service, c, outcome);
      response.headers.set("idempotent-replayed", String(outcome.kind === "replayed"));
      if (waitSeconds > 0) response.headers.set("preference-applied", `wait=${waitSeconds}`);
      return response;
    };
    keyedHandlers.add(handler);
    return handler as unknown as RouteHandler<Route, E>;
  };
}

async function executeMutation<
  E extends Env,
  Route extends RouteShape,
  Reads extends readonly Read[],
>(
  service: Service<E>,
  // oxlint-disable-next-line typescript/no-explicit-any
  c: Context<E, any, any>,
  request: { scope: Scope; mutation: Mutation<Route, Reads>; trace: Trace; waitMs: number },
): Promise<Outcome> {
  const { scope, mutation, trace, waitMs } = request;
  const { db, principal, key, requestId, settings } = scope;
  const [body, params] = [c.req.valid("json"), c.req.valid("param")];
  const input = { db, principal, key, body, params } as ReadContext<Route>;
  const fingerprint = await fingerprintRequest({
    method: c.req.method,
    pathAndQuery: pathAndQueryOf(c.req.url),
    headers: c.req.raw.headers,
    body: scope.identifyingBody ?? new Uint8Array(await c.req.arrayBuffer()),
    mode: settings.fingerprintMode,
  });
  return execute({
    db,
    principal,
    key,
    fingerprint,
    settings,
    trace,
    waitMs,
    ports: service,
    method: c.req.method,
    path: c.req.path,
    reads: () => mutation.reads(input),
    run: ({ reads, ...run }) =>
      mutation.run({ ...input, ...run, reads: reads as ReadResults<Reads>, requestId }),
    responseTooLarge: () => service.responseTooLarge(requestId),
  });
}

/** Verbatim: nothing is decoded, sorted or dropped. */
function pathAndQueryOf(url: string): string {
  return url.slice(url.indexOf("/", url.indexOf("://") + 3));
}

function answer<E extends Env>(service: Service<E>, c: Context<E>, outcome: Outcome): Response {
  if (!("response" in outcome)) return service.refuse(c, outcome);
  const { status, headers, body } = outcome.response;
  return new Response(NULL_BODY_STATUSES.has(status) ? null : body, { status, headers });
}
