import { z } from "zod";

import { invalidRequest, type Reply } from "./errors.ts";
import type { Params } from "./form.ts";

/** Stripe's limits on metadata: https://docs.stripe.com/api/metadata */
const MAX_METADATA_KEYS = 50;
const MAX_METADATA_KEY_CHARS = 40;
const MAX_METADATA_VALUE_CHARS = 500;
/** Stripe's largest amount has eight digits in most currencies. */
const AMOUNT = /^0*[1-9]\d{0,7}$/;
const MAX_LIST_LIMIT = 100;
const DEFAULT_LIST_LIMIT = 10;

const amount = z
  .string()
  .regex(AMOUNT, "must be a whole number from 1 to 99999999")
  .transform(Number);
const flag = z.enum(["true", "false"]).transform((text) => text === "true");
const id = z.string().min(1).max(255);

const metadata = z
  // An empty text unsets all of it, which on something new is nothing.
  .preprocess(
    (value) => (value === "" ? {} : value),
    z
      .record(
        z.string().min(1).max(MAX_METADATA_KEY_CHARS),
        z.string().max(MAX_METADATA_VALUE_CHARS),
      )
      .refine((values) => Object.keys(values).length <= MAX_METADATA_KEYS, "has too many keys")
      // So does an empty value its key.
      .transform((values) =>
        Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "")),
      )
      .default({}),
  );

/** What Stripe takes to know how a card may be confirmed. Only cards exist here, so it changes nothing. */
const cardsOnly = {
  payment_method_types: z.record(z.string(), z.literal("card")).optional(),
  automatic_payment_methods: z
    .strictObject({ enabled: flag, allow_redirects: z.enum(["always", "never"]).optional() })
    .optional(),
  capture_method: z.enum(["automatic", "automatic_async"]).optional(),
  off_session: flag.optional(),
  error_on_requires_action: flag.optional(),
  return_url: z.string().optional(),
};

export const CreateIntent = z.strictObject({
  amount,
  currency: z
    .string()
    .regex(/^[a-z]{3}$/i, "must be an ISO 4217 code")
    .transform((code) => code.toLowerCase()),
  confirm: flag.default(false),
  payment_method: id.optional(),
  metadata,
  ...cardsOnly,
});

export const ConfirmIntent = z.strictObject({
  payment_method: id.optional(),
  off_session: cardsOnly.off_session,
  error_on_requires_action: cardsOnly.error_on_requires_action,
  return_url: cardsOnly.return_url,
});

export const CreateRefund = z
  .strictObject({
    amount: amount.optional(),
    charge: id.optional(),
    payment_intent: id.optional(),
    reason: z.enum(["duplicate", "fraudulent", "requested_by_customer"]).optional(),
    metadata,
  })
  .refine((params) => (params.charge === undefined) !== (params.payment_intent === undefined), {
    path: ["payment_intent"],
    error: "or charge is needed, and not both",
  });

export const ListRefunds = z.strictObject({
  charge: id.optional(),
  payment_intent: id.optional(),
  starting_after: id.optional(),
  limit: z.coerce.number().int().min(1).max(MAX_LIST_LIMIT).default(DEFAULT_LIST_LIMIT),
});

export const Nothing = z.strictObject({});

export type Parsed<T> = { kind: "valid"; params: T } | { kind: "refused"; reply: Reply };

/** Reads parameters. What the sandbox does not know it refuses, rather than pretend that it had an effect. */
export function parseParams<S extends z.ZodType>(schema: S, raw: Params): Parsed<z.output<S>> {
  const parsed = schema.safeParse(raw, { reportInput: true });
  if (parsed.success) return { kind: "valid", params: parsed.data };
  return { kind: "refused", reply: refusalOf(parsed.error.issues[0]!) };
}

function refusalOf(issue: z.core.$ZodIssue): Reply {
  const param = nameOf(issue.path);
  if (issue.code === "unrecognized_keys") {
    const unknown = nameOf([...issue.path, issue.keys[0]!]);
    const message = `The sandbox does not know this parameter: ${unknown}`;
    return invalidRequest(message, { code: "parameter_unknown", param: unknown });
  }
  if (issue.code !== "custom" && issue.input === undefined) {
    return invalidRequest(`${param} is missing.`, { code: "parameter_missing", param });
  }
  const code = param === "amount" ? { code: "parameter_invalid_integer" } : {};
  return invalidRequest(`${param}: ${issue.message}`, { ...code, param });
}

/** As in the form: `metadata[a]`. */
function nameOf([top, ...rest]: readonly PropertyKey[]): string {
  return String(top) + rest.map((name) => `[${String(name)}]`).join("");
}

/** Values that may be kept in the record of calls. Of any other parameter only its name is. */
const RECORDED = new Set([
  ...Object.keys(CreateIntent.shape),
  ...Object.keys(CreateRefund.shape),
  ...Object.keys(ListRefunds.shape),
]);

export function withoutSecrets(params: Params): Params {
  const kept = Object.entries(params).map(([name, value]) => [
    name,
    RECORDED.has(name) ? value : "(not kept)",
  ]);
  return Object.fromEntries(kept) as Params;
}
