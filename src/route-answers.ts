import { z } from "@hono/zod-openapi";

import { problemBody } from "./problem.ts";
import { PROBLEMS, type ProblemCode } from "./problems.ts";

// What the OpenAPI document says of answers: their headers, and every problem with an example.

const Problem = z
  .object({
    type: z.string().describe("A path on this service: a page that says what to do."),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    error: z.enum(Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]),
    retryable: z
      .boolean()
      .describe("Whether the same request, under the same key, can succeed later."),
    request_id: z.string(),
    ...extraMembers(),
  })
  .describe("RFC 9457. Ignore members that you do not know: more may be added.")
  .openapi("Problem");

/** What some codes add. Their examples say which. */
function extraMembers() {
  const integer = z.int().optional();
  const strings = z.array(z.string()).optional();
  return {
    errors: z
      .array(z.object({ path: z.string(), message: z.string() }))
      .optional()
      .describe("What is wrong, each by the JSON Pointer (RFC 6901) of its field."),
    retry_after_ms: integer.describe("When to look again: as Retry-After, more finely."),
    takeover_after_ms: integer.describe("When a retry takes over, should the owner have died."),
    limit_bytes: integer.describe("The largest body that is accepted."),
    products: z
      .array(z.object({ product_id: z.string(), available: z.int() }))
      .optional()
      .describe("What is left of each product that there is not enough of."),
    product_ids: strings.describe("What the account's catalogue does not have."),
    currencies: strings.describe("What was found where one is allowed."),
    order_status: z.string().optional().describe("What the order is instead."),
    payment_id: z.string().optional().describe("The payment that failed: it can be read."),
    refund_id: z.string().optional().describe("The refund that failed."),
    payment_status: z.string().optional().describe("What the payment is instead."),
    decline_code: z.string().optional().describe("The provider's reason not to charge."),
    failure_code: z.string().optional().describe("The provider's reason not to refund."),
    refundable_amount: integer.describe("What is left of the payment, in minor units."),
  };
}

const RequestId = z
  .string()
  .describe("What to quote when you ask about this answer: yours, if you sent a good one.");
const Replayed = z
  .enum(["true", "false"])
  .describe("Whether this is the stored answer of an earlier request with the same key.");
const Location = z.string().describe("The path of what was made, or of what shows it.");
const RetryAfter = z.string().describe("Seconds to wait before the next try (RFC 9110 §10.2.3).");
const Challenge = z.string().describe("How to authenticate (RFC 9110 §11.6.1).");
const PreferenceApplied = z
  .string()
  .describe("The wait that was granted, such as `wait=5` (RFC 7240 §3).");
const ServerTiming = z.string().describe("D1 round trips and phases, where SERVER_TIMING is on.");

/** Headers of every answer. */
export const answerHeaders = z.object({ "x-request-id": RequestId });

const ledgerHeaders = z.object({
  "preference-applied": PreferenceApplied.optional(),
  "server-timing": ServerTiming.optional(),
});

/** Headers of a mutation's answer. Only a 201 says where the new resource is. */
export function keyedAnswerHeaders(status: 200 | 201) {
  const always = answerHeaders.extend({ "idempotent-replayed": Replayed, ...ledgerHeaders.shape });
  return status === 201 ? always.extend({ location: Location }) : always;
}

/** What a keyed route adds to the headers of its problems: the ledger's, once a request has come that far. */
export const keyedProblemHeaders = ledgerHeaders.extend({
  "idempotent-replayed": Replayed.optional(),
});

/** What a code adds to the members that every problem has, in one form or several. Tests compare each with real answers. */
const MEMBERS: { [Code in ProblemCode]?: object | readonly object[] } = {
  invalid_request: { errors: [{ path: "/items/0/quantity", message: "Too small" }] },
  card_declined: {
    payment_id: "pay_0192f3a0-0000-7000-8000-000000000001",
    decline_code: "generic_decline",
  },
  idempotency_key_in_progress: { retry_after_ms: 200, takeover_after_ms: 29_950 },
  insufficient_stock: {
    products: [{ product_id: "prod_0192f3a0-0000-7000-8000-000000000001", available: 1 }],
  },
  order_not_cancellable: { order_status: "paid" },
  order_not_payable: { order_status: "paid" },
  payment_not_refundable: [
    { payment_status: "failed" },
    {
      refund_id: "ref_0192f3a0-0000-7000-8000-000000000005",
      failure_code: "charge_already_refunded",
    },
  ],
  body_too_large: { limit_bytes: 65_536 },
  unknown_product: { product_ids: ["prod_0192f3a0-0000-7000-8000-000000000009"] },
  mixed_currencies: { currencies: ["EUR", "USD"] },
  refund_exceeds_payment: { refundable_amount: 500 },
};

/** One response per status, with an example of every code that it may carry. */
export function problemResponses(codes: readonly ProblemCode[], more = z.object({})) {
  const byStatus = Map.groupBy(codes, (code) => PROBLEMS[code].status);
  return Object.fromEntries(
    [...byStatus].map(([status, same]) => [
      status,
      {
        description: same.map(describe).join(", "),
        headers: headersOf(status, same).extend(more.shape),
        content: { "application/problem+json": { schema: Problem, examples: examplesOf(same) } },
      },
    ]),
    // Without a type: Hono would otherwise make every problem a body that the client's types have to tell apart.
  ) as {};
}

function describe(code: ProblemCode): string {
  return `\`${code}\` (${PROBLEMS[code].retryable ? "a retry can help" : "final"})`;
}

/** Each under its code; a second form of it under its code and number. */
function examplesOf(codes: readonly ProblemCode[]) {
  const examples = codes.flatMap((code) =>
    [MEMBERS[code] ?? {}]
      .flat()
      .map((members, form) => [
        form === 0 ? code : `${code}_${form + 1}`,
        { summary: PROBLEMS[code].title, value: problemBody("8f2c7d1e", code, { ...members }) },
      ]),
  );
  return Object.fromEntries(examples) as Record<string, { summary: string; value: object }>;
}

function headersOf(status: number, codes: readonly ProblemCode[]) {
  if (status === 401) return answerHeaders.extend({ "www-authenticate": Challenge });
  return codes.some((code) => "retryAfterSeconds" in PROBLEMS[code])
    ? answerHeaders.extend({ "retry-after": RetryAfter.optional() })
    : answerHeaders;
}

/** A name for generated clients, such as `postOrdersByIdPayments`, and under what a viewer lists it. */
export function named(method: string, path: string) {
  const words = path.replaceAll(/\{(\w+)\}/g, "by-$1").split(/[^a-z]+/i);
  const capitalised = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1));
  return { operationId: method + capitalised.join(""), tags: [tagOf(path)] };
}

function tagOf(path: string): string {
  const [, first] = path.split("/");
  return first === "admin" || first === "metrics" || first === "healthz" ? "operator" : first!;
}
