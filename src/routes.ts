import { createRoute, z } from "@hono/zod-openapi";
import { createMiddleware } from "hono/factory";

import { KEY_SYNTAX, MAX_KEY_LENGTH, parseIdempotencyKey } from "./idempotency/key.ts";
import { MAX_WAIT_SECONDS } from "./idempotency/prefer.ts";
import { authenticate } from "./principal.ts";
import { problemResponse } from "./problem.ts";
import type { ProblemCode } from "./problems.ts";
import { readBody } from "./request-body.ts";
import {
  answerHeaders,
  keyedAnswerHeaders,
  keyedProblemHeaders,
  named,
  problemResponses,
} from "./route-answers.ts";
import type { AppEnv } from "./scope.ts";

export const authenticated = authenticate();

/** The key is judged before the body: the cheaper check first, and a keyless client learns of its larger bug. */
const requireKey = createMiddleware<AppEnv>(async (c, next) => {
  const parsed = parseIdempotencyKey(c.req.header("idempotency-key"));
  if (parsed.kind === "absent") return problemResponse(c, "idempotency_key_required");
  if (parsed.kind === "invalid") {
    return problemResponse(c, "idempotency_key_invalid", { detail: parsed.detail });
  }
  c.set("idempotencyKey", parsed.key);
  await next();
  // Every keyed answer says whether it is a replay, also one that was refused before the ledger.
  if (!c.res.headers.has("idempotent-replayed")) c.header("idempotent-replayed", "false");
});

const KEY_EXAMPLES = {
  bare: { value: "8e03978e-40d5-43dd-bc93-6894a57f9324" },
  quoted: { value: '"8e03978e-40d5-43dd-bc93-6894a57f9324"' },
};

const KeyedRequestHeaders = z.object({
  // The pattern is for who reads the document: `requireKey` has judged the key, and says more of what is wrong with it.
  "idempotency-key": z
    .string()
    .describe(
      `Names the operation. 1 to ${MAX_KEY_LENGTH} printable ASCII characters, bare and without a comma, or as an RFC 9651 String: both forms name the same key.`,
    )
    .openapi({ pattern: KEY_SYNTAX, param: { examples: KEY_EXAMPLES } }),
  "x-api-version": z
    .string()
    .optional()
    .describe("Part of the request that the key names, if you send it. One version is served."),
  prefer: z
    .string()
    .optional()
    .describe(
      `\`wait=N\`: wait up to N ≤ ${MAX_WAIT_SECONDS} seconds for the outcome of a request in progress (RFC 7240).`,
    )
    .openapi({ param: { example: "wait=5" } }),
});

/** Ids are a prefix and a uuid. What does not look like one is nobody's, and is refused before anything is stored. */
export const Id = idWith("[a-z]{2,8}");

function idWith(prefix: string) {
  return z
    .string()
    .regex(new RegExp(`^${prefix}_[0-9a-z-]{1,40}$`), "is no id that can stand here");
}

/** Path parameters of a route about one thing. */
export const ById = z.object({ id: Id });

/**
 * Page of a list, newest first, as Stripe's lists are. The position is compared, not looked up: an id of another kind, or
 * none, would be before or after everything there is.
 */
export const pageQuery = (prefix: "ord" | "pay" | "prod") =>
  z.object({
    limit: z.coerce.number<number | string>().int().min(1).max(100).default(20),
    starting_after: idWith(prefix).optional().describe("The last id of the page before."),
  });

export const pageOf = <Item extends z.ZodType>(item: Item) =>
  z.object({ data: z.array(item), has_more: z.boolean() });

/** The wire format of a list, from its rows and, should there be one, the first of the next page. */
export function pageFrom<Item>(rows: Item[], limit: number) {
  return { data: rows.slice(0, limit), has_more: rows.length > limit };
}

const readProblems = [
  "unauthorized",
  "rate_limited",
  "internal_error",
  "service_unavailable",
] as const;
const keyedProblems = [
  "invalid_request",
  "idempotency_key_required",
  "idempotency_key_invalid",
  "unauthorized",
  "body_too_large",
  "rate_limited",
  "idempotency_key_in_progress",
  "idempotency_key_retry",
  "idempotency_key_reused",
  "internal_error",
  "idempotent_response_too_large",
  "outcome_unknown",
  "service_unavailable",
] as const;

/** Declares a GET for an authenticated account. */
export function readRoute<
  const Path extends string,
  Wire extends z.ZodType,
  const Params extends z.ZodObject = z.ZodObject<{}>,
  const Query extends z.ZodObject = z.ZodObject<{}>,
>(route: { path: Path; summary: string; wire: Wire; params?: Params; query?: Query }) {
  const { path, summary, wire, params, query } = route;
  return createRoute({
    method: "get",
    path,
    ...named("get", path),
    summary,
    security: [{ account: [] }],
    middleware: [authenticated],
    request: { params: params as Params, query: query as Query },
    responses: {
      200: {
        description: "OK",
        headers: answerHeaders,
        content: { "application/json": { schema: wire } },
      },
      ...problemResponses([
        ...(query === undefined ? [] : (["invalid_request"] as const)),
        ...(params === undefined ? [] : (["not_found"] as const)),
        ...readProblems,
      ]),
    },
  });
}

/** Declares a POST for an authenticated account: mount its mutation with `idempotent`. */
export function keyedRoute<
  const Path extends string,
  Wire extends z.ZodType,
  const Status extends 200 | 201,
  Body extends z.ZodType = z.ZodUndefined,
  const Params extends z.ZodObject = z.ZodObject<{}>,
>(route: {
  path: Path;
  summary: string;
  params?: Params;
  body?: Body;
  status: Status;
  wire: Wire;
  /** What this mutation itself may answer; what any keyed request may is added. */
  problems: ProblemCode[];
}) {
  const { path, summary, params, body, status, wire, problems } = route;
  const success = {
    description: "Done",
    headers: keyedAnswerHeaders(status),
    content: { "application/json": { schema: wire } },
  };
  return createRoute({
    method: "post",
    path,
    ...named("post", path),
    summary,
    security: [{ account: [] }],
    middleware: [authenticated, requireKey, readBody],
    request: {
      headers: KeyedRequestHeaders,
      params: params as Params,
      ...((body && {
        body: { content: { "application/json": { schema: body } }, required: true },
      }) as Body extends z.ZodUndefined
        ? {}
        : { body: { content: { "application/json": { schema: Body } }; required: true } }),
    },
    responses: {
      ...({ [status]: success } as Record<Status, typeof success>),
      ...problemResponses(
        [
          ...keyedProblems,
          ...(params === undefined ? [] : (["not_found"] as const)),
          ...(body === undefined ? [] : (["unsupported_media_type"] as const)),
          ...problems,
        ],
        keyedProblemHeaders,
      ),
    },
  });
}
