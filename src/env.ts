import { z } from "zod";

const DAY_MS = 24 * 60 * 60 * 1000;
/** What a handler needs besides an outside call: its D1 round trips, from far away and under load. */
const HANDLER_MARGIN_MS = 500;

const positive = (fallback: number) => z.coerce.number().int().positive().default(fallback);

/** Compares settings whenever both are valid by themselves, so that every problem is reported at once. */
const whenValid =
  (...names: string[]) =>
  ({ issues }: { issues: { code?: string; path?: PropertyKey[] }[] }) =>
    // A relation that is broken has the code "custom"; it says nothing against the setting in another one.
    !issues.some(({ code, path }) => code !== "custom" && names.includes(String(path?.[0])));

const Settings = z
  .object({
    /** How long an attempt may hold its claim before a retry may take it over. */
    PENDING_TTL_MS: positive(30_000),
    /** How long an answer is replayed, at least. */
    RETENTION_MS: positive(DAY_MS),
    /** Most rows that one request's sweep deletes: more than one, so that it gains on the traffic. */
    SWEEP_BATCH_SIZE: z.coerce.number().int().min(2).default(20),
    /** Largest response that is stored, bytes. */
    RESPONSE_LIMIT_BYTES: positive(16_384),
    /** Largest request body that is accepted, bytes. */
    BODY_LIMIT_BYTES: positive(65_536),
    IDEMPOTENCY_FINGERPRINT: z.enum(["raw", "canonical-json"]).default("raw"),
    IDEMPOTENCY_REUSE_STATUS: z.coerce
      .number()
      .pipe(z.literal([422, 409]))
      .default(422),
    /** Longest that a mutation may wait for an outside system. */
    PROVIDER_TIMEOUT_MS: positive(10_000),
    SERVER_TIMING: z.enum(["on", "off"]).default("off"),
    CORS_ORIGIN: z.string().min(1).default("*"),
  })
  .refine((s) => s.PENDING_TTL_MS > s.PROVIDER_TIMEOUT_MS + HANDLER_MARGIN_MS, {
    path: ["PENDING_TTL_MS"],
    when: whenValid("PENDING_TTL_MS", "PROVIDER_TIMEOUT_MS"),
    error: `must exceed the longest handler: PROVIDER_TIMEOUT_MS + ${HANDLER_MARGIN_MS}. A shorter lease invites takeovers of attempts that are alive.`,
  })
  .refine((s) => s.RETENTION_MS > s.PENDING_TTL_MS, {
    path: ["RETENTION_MS"],
    when: whenValid("RETENTION_MS", "PENDING_TTL_MS"),
    error: "must exceed PENDING_TTL_MS: a claim must not expire while it is held.",
  })
  .transform((s) =>
    Object.freeze({
      pendingTtlMs: s.PENDING_TTL_MS,
      retentionMs: s.RETENTION_MS,
      sweepBatchSize: s.SWEEP_BATCH_SIZE,
      responseLimitBytes: s.RESPONSE_LIMIT_BYTES,
      bodyLimitBytes: s.BODY_LIMIT_BYTES,
      fingerprintMode: s.IDEMPOTENCY_FINGERPRINT,
      reuseStatus: s.IDEMPOTENCY_REUSE_STATUS,
      providerTimeoutMs: s.PROVIDER_TIMEOUT_MS,
      hasServerTiming: s.SERVER_TIMING === "on",
      corsOrigin: s.CORS_ORIGIN,
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
