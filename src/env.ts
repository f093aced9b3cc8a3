import { z } from "zod";

import { TOKEN } from "./bearer.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
/** What a handler needs besides an outside call: its D1 round trips, from far away and under load. */
const HANDLER_MARGIN_MS = 500;

/**
 * When the jobs of the cron run, as `triggers` in wrangler.toml has it: a test holds the two together. One each, since an
 * invocation has limits, and payments that hang must leave the sweep enough of them.
 */
export const CRONS = { sweep: "*/5 * * * *", reconcile: "2-57/5 * * * *" } as const;
export const CRON_INTERVAL_MS = 5 * 60 * 1000;

/** Signing secrets that may be in force at once. Rotating one takes two. */
const MAX_WEBHOOK_SECRETS = 4;

/** One message for whatever is wrong with a number. */
function wholeNumber(fallback: number, { least = 1, most = DAY_MS } = {}) {
  const isInRange = (value: number) => Number.isInteger(value) && value >= least && value <= most;
  const error = `must be a whole number from ${least} to ${most}`;
  return z.coerce.number({ error }).refine(isInRange, { error }).default(fallback);
}

const ORIGIN = /^https?:\/\/[^\s/?#@]+\/?$/;
const webUrl = z.url({ protocol: /^https?$/, error: "must be an http(s) URL" });

/** Compares settings whenever each is valid by itself, so that every problem is reported at once. */
const relation = (...names: string[]) => ({
  params: { isRelation: true },
  // What is wrong with another relation says nothing against the settings in this one.
  when: ({ issues }: { issues: { path?: PropertyKey[]; params?: Record<string, unknown> }[] }) =>
    !issues.some(
      ({ path, params }) => !params?.["isRelation"] && names.includes(String(path?.[0])),
    ),
});

const Settings = z
  .object({
    /** How long an attempt may hold its claim before a retry may take it over. */
    PENDING_TTL_MS: wholeNumber(30_000),
    /** How long an answer is replayed, at least. */
    RETENTION_MS: wholeNumber(DAY_MS, { most: 365 * DAY_MS }),
    /** Most rows that one request's sweep deletes: more than one, so that requests in turn gain on what they fill. */
    SWEEP_BATCH_SIZE: wholeNumber(20, { least: 2, most: 1_000 }),
    /**
     * How long an expired row may stay, or the cron's sweep stay away, before eviction is failing. Two intervals of the
     * cron at least, since one late run is no alarm.
     */
    EVICTION_LAG_ALERT_MS: wholeNumber(60 * 60 * 1000, { least: 2 * CRON_INTERVAL_MS }),
    /** Largest response that is stored, bytes. */
    RESPONSE_LIMIT_BYTES: wholeNumber(16_384, { least: 4_096, most: 1_000_000 }),
    /** Largest request body that is accepted, bytes. */
    BODY_LIMIT_BYTES: wholeNumber(65_536, { least: 1_024, most: 10_000_000 }),
    IDEMPOTENCY_FINGERPRINT: z.enum(["raw", "canonical-json"]).default("raw"),
    IDEMPOTENCY_REUSE_STATUS: z.coerce
      .number()
      .pipe(z.literal([422, 409]))
      .default(422),
    /** Longest that a mutation may wait for an outside system. */
    PROVIDER_TIMEOUT_MS: wholeNumber(10_000),
    SERVER_TIMING: z.enum(["on", "off"]).default("off"),
    /** Opens src/lab: the order endpoint done the usual ways, for comparison. */
    LAB: z.enum(["on", "off"]).default("off"),
    CORS_ORIGIN: z
      .string()
      .regex(/^(\*|https?:\/\/[^/\s]+)$/, "must be * or an origin, such as https://shop.example")
      .default("*"),
    /** Opens the operator routes. Unset: they are not there. */
    ADMIN_TOKEN: z
      .string()
      .min(16, "must have 16 characters or more")
      .regex(TOKEN, "must have only letters, digits and -._~+/, as a bearer token has")
      .optional(),
    /** Set: payments go to Stripe. Unset: to the embedded sandbox. Standard and restricted keys both do. */
    STRIPE_SECRET_KEY: z
      .string()
      // The key is left out of the message: messages are logged.
      .regex(
        /^[sr]k_(test|live)_\w+$/,
        "must be a secret key: sk_test_…, sk_live_…, rk_test_…, rk_live_…",
      )
      .optional(),
    /** Where Stripe's API is, when it is not at api.stripe.com: a proxy, or a mock of its own. */
    STRIPE_API_BASE: z
      .string()
      .refine(
        (url) => ORIGIN.test(url) && URL.canParse(url),
        "must be protocol, host and port alone",
      )
      .optional(),
    /** Signing secrets, comma-separated. All are accepted; the sandbox signs with the first. */
    STRIPE_WEBHOOK_SECRETS: z
      .string()
      .transform((list) => list.split(",").map((secret) => secret.trim()))
      .pipe(z.array(z.string().regex(/^\S+$/, "must not be blank")).max(MAX_WEBHOOK_SECRETS))
      .default([]),
    /** Where the sandbox sends its events. Unset: it keeps them and sends none. */
    SANDBOX_WEBHOOK_URL: webUrl.optional(),
  })
  .refine((s) => s.PENDING_TTL_MS > s.PROVIDER_TIMEOUT_MS + HANDLER_MARGIN_MS, {
    path: ["PENDING_TTL_MS"],
    ...relation("PENDING_TTL_MS", "PROVIDER_TIMEOUT_MS"),
    error: `must exceed the longest handler: PROVIDER_TIMEOUT_MS + ${HANDLER_MARGIN_MS}. A shorter lease invites takeovers of attempts that are alive.`,
  })
  .refine((s) => s.RETENTION_MS >= 2 * s.PENDING_TTL_MS, {
    path: ["RETENTION_MS"],
    ...relation("RETENTION_MS", "PENDING_TTL_MS"),
    error:
      "must be at least twice PENDING_TTL_MS: the window counts from the claim, and must outlast the answer.",
  })
  .refine((s) => s.STRIPE_API_BASE === undefined || s.STRIPE_SECRET_KEY !== undefined, {
    path: ["STRIPE_API_BASE"],
    ...relation("STRIPE_API_BASE", "STRIPE_SECRET_KEY"),
    error: "needs STRIPE_SECRET_KEY: without it payments go to the sandbox, not to this address.",
  })
  .refine((s) => s.SANDBOX_WEBHOOK_URL === undefined || s.STRIPE_WEBHOOK_SECRETS.length > 0, {
    path: ["SANDBOX_WEBHOOK_URL"],
    ...relation("SANDBOX_WEBHOOK_URL", "STRIPE_WEBHOOK_SECRETS"),
    error: "needs STRIPE_WEBHOOK_SECRETS: an event that is not signed is refused.",
  })
  .transform((s) =>
    Object.freeze({
      pendingTtlMs: s.PENDING_TTL_MS,
      retentionMs: s.RETENTION_MS,
      sweepBatchSize: s.SWEEP_BATCH_SIZE,
      evictionLagAlertMs: s.EVICTION_LAG_ALERT_MS,
      responseLimitBytes: s.RESPONSE_LIMIT_BYTES,
      bodyLimitBytes: s.BODY_LIMIT_BYTES,
      fingerprintMode: s.IDEMPOTENCY_FINGERPRINT,
      reuseStatus: s.IDEMPOTENCY_REUSE_STATUS,
      providerTimeoutMs: s.PROVIDER_TIMEOUT_MS,
      hasServerTiming: s.SERVER_TIMING === "on",
      hasLab: s.LAB === "on",
      corsOrigin: s.CORS_ORIGIN,
      /** Undefined: there are no operator routes. */
      adminToken: s.ADMIN_TOKEN,
      /** Undefined: payments go to the embedded sandbox. */
      stripeSecretKey: s.STRIPE_SECRET_KEY,
      stripeApiBase: s.STRIPE_API_BASE,
      /** The first one signs; any of them is accepted. Empty: no webhook can be checked. */
      stripeWebhookSecrets: Object.freeze(s.STRIPE_WEBHOOK_SECRETS),
      sandboxWebhookUrl: s.SANDBOX_WEBHOOK_URL,
    }),
  );

export type Config = z.output<typeof Settings>;

const configs = new WeakMap<object, Config>();

/**
 * The Worker's settings, validated once per isolate.
 *
 * @throws listing every setting that is wrong, not only the first.
 */
export function configOf(env: object): Config {
  const known = configs.get(env);
  if (known !== undefined) return known;
  const config = parseConfig(env);
  configs.set(env, config);
  return config;
}

function parseConfig(env: object): Config {
  const parsed = Settings.safeParse(env);
  if (!parsed.success) {
    const problems = parsed.error.issues.map(
      (issue) => `${issue.path.join(".")}: ${issue.message}`,
    );
    throw new Error(`Wrong settings:\n  ${problems.join("\n  ")}`);
  }
  return parsed.data;
}
