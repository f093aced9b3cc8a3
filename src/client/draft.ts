import { hc, type InferResponseType } from "hono/client";
import type { SuccessStatusCode } from "hono/utils/http-status";

import type { createApp } from "../app.ts";

/** A request that is written down and not sent. */
export interface Draft<Wire> {
  url: string;
  method: string;
  headers: Headers;
  /** Serialised once, so that every try sends the same bytes: they are what the ledger's fingerprint is taken over. */
  body: string | null;
  /** Never there: it carries the type of the answer's body. */
  wire?: Wire;
}

type Routes = ReturnType<typeof hc<ReturnType<typeof createApp>>>;

/** The service's GETs by path. A call writes down a request. */
export type ReadApi = Api<Routes, "read">;

/** The service's routes that take an idempotency key, by path. A call writes down a request. */
export type KeyedApi = Api<Routes, "keyed">;

type Kind = "read" | "keyed";

type Api<Node, Wanted extends Kind> = {
  [
    Name in keyof Node as Name extends `$${string}`
      ? KindOf<Name, Node[Name]> extends Wanted
        ? Name
        : never
      : Name
  ]: Name extends `$${string}`
    ? (...args: ArgumentsOf<Node[Name]>) => Promise<Draft<WireOf<Node[Name]>>>
    : Api<Node[Name], Wanted>;
};

type KindOf<Name, Call> = Name extends "$get"
  ? "read"
  : InputOf<Call> extends { header: { "idempotency-key": string } }
    ? "keyed"
    : "other";

type InputOf<Call> = Call extends (input: infer Input, ...rest: never) => unknown
  ? NonNullable<Input>
  : never;

type ArgumentsOf<Call> =
  {} extends Parts<InputOf<Call>> ? [input?: Parts<InputOf<Call>>] : [input: Parts<InputOf<Call>>];

/** What a caller passes. Not the headers, which the client sets; a part in which nothing is required may be left out. */
type Parts<Input> = {
  [Part in keyof Input as {} extends Input[Part] ? never : Exclude<Part, "header">]: Input[Part];
} & {
  [Part in keyof Input as {} extends Input[Part] ? Exclude<Part, "header"> : never]?: Input[Part];
};

type WireOf<Call> = InferResponseType<Call, SuccessStatusCode>;

/** Lets `describe` write down the one request that it describes. */
export async function describeRequest<Wire>(
  baseUrl: string,
  describe: (api: never) => Promise<Draft<Wire>>,
): Promise<Draft<Wire>> {
  let drafts = 0;
  const writeDown = async (url: string, { method, headers, body }: RequestInit) => {
    drafts += 1;
    return { url, method, headers, body: body ?? null };
  };
  const routes = hc(baseUrl, { fetch: writeDown as unknown as typeof fetch });
  const drafted = await describe(guarded(routes) as never);
  if (drafts !== 1) throw new Error(`bug: ${drafts} requests described where one is sent`);
  return drafted;
}

interface HonoInput {
  param?: Record<string, string>;
  query?: Record<string, string>;
  json?: unknown;
}

/** Passes on what a request is made of, and nothing that would change how it is sent. */
function guarded(routes: object): object {
  return new Proxy(routes, {
    get(node, name) {
      const child: unknown = Reflect.get(node, name);
      return typeof child === "function" ? guarded(child) : child;
    },
    apply(call, _this, [{ param = {}, query, json } = {}]: [HonoInput?]) {
      const encoded = Object.entries(param).map(([name, value]) => [name, pathSegment(value)]);
      const input = { param: Object.fromEntries(encoded) as HonoInput["param"], query, json };
      return (call as (input: HonoInput) => unknown)(input);
    },
  });
}

/** Hono puts parameters into the path as they are. */
function pathSegment(value: string): string {
  // A URL drops these, so that another route than the one that was meant would be called.
  if (["", ".", ".."].includes(value)) throw new Error(`bug: "${value}" as a path parameter`);
  return encodeURIComponent(value);
}
