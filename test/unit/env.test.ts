import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { configOf, CRON_INTERVAL_MS, CRONS } from "../../src/env.ts";

/** What is reported as wrong, one line each. */
function problemsOf(env: object): string[] {
  try {
    configOf(env);
  } catch (error) {
    const [title, ...problems] = (error as Error).message.split("\n");
    expect(title).toBe("Wrong settings:");
    return problems.map((problem) => problem.trim());
  }
  return [];
}

const settingsOf = (env: object) => problemsOf(env).map((problem) => problem.split(":")[0]!);

test("with nothing set, every setting has the default that the design gives it", () => {
  expect(configOf({})).toEqual({
    pendingTtlMs: 30_000,
    retentionMs: 86_400_000,
    sweepBatchSize: 20,
    evictionLagAlertMs: 3_600_000,
    responseLimitBytes: 16_384,
    bodyLimitBytes: 65_536,
    fingerprintMode: "raw",
    reuseStatus: 422,
    providerTimeoutMs: 10_000,
    hasServerTiming: false,
    hasLab: false,
    corsOrigin: "*",
    stripeSecretKey: undefined,
    stripeApiBase: undefined,
    stripeWebhookSecrets: [],
    sandboxWebhookUrl: undefined,
  });
});

test("every setting is read from its variable, which is text", () => {
  const env = {
    PENDING_TTL_MS: "2000",
    RETENTION_MS: "60000",
    SWEEP_BATCH_SIZE: "7",
    EVICTION_LAG_ALERT_MS: "600000",
    RESPONSE_LIMIT_BYTES: "4096",
    BODY_LIMIT_BYTES: "2048",
    IDEMPOTENCY_FINGERPRINT: "canonical-json",
    IDEMPOTENCY_REUSE_STATUS: "409",
    PROVIDER_TIMEOUT_MS: "1000",
    SERVER_TIMING: "on",
    LAB: "on",
    CORS_ORIGIN: "https://shop.example",
    ADMIN_TOKEN: "sixteen-characters",
    STRIPE_SECRET_KEY: "rk_live_abc123",
    STRIPE_API_BASE: "http://127.0.0.1:12111",
    STRIPE_WEBHOOK_SECRETS: "whsec_new, whsec_old",
    SANDBOX_WEBHOOK_URL: "https://shop.example/webhooks/stripe",
  };
  expect(configOf(env)).toEqual({
    pendingTtlMs: 2_000,
    retentionMs: 60_000,
    sweepBatchSize: 7,
    evictionLagAlertMs: 600_000,
    responseLimitBytes: 4_096,
    bodyLimitBytes: 2_048,
    fingerprintMode: "canonical-json",
    reuseStatus: 409,
    providerTimeoutMs: 1_000,
    hasServerTiming: true,
    hasLab: true,
    corsOrigin: "https://shop.example",
    adminToken: "sixteen-characters",
    stripeSecretKey: "rk_live_abc123",
    stripeApiBase: "http://127.0.0.1:12111",
    stripeWebhookSecrets: ["whsec_new", "whsec_old"],
    sandboxWebhookUrl: "https://shop.example/webhooks/stripe",
  });
});

test("bindings beside the settings do not disturb them", () => {
  expect(configOf({ DB: { prepare() {} }, PENDING_TTL_MS: "40000" }).pendingTtlMs).toBe(40_000);
});

test.each([
  "PENDING_TTL_MS",
  "RETENTION_MS",
  "SWEEP_BATCH_SIZE",
  "EVICTION_LAG_ALERT_MS",
  "RESPONSE_LIMIT_BYTES",
  "BODY_LIMIT_BYTES",
  "PROVIDER_TIMEOUT_MS",
])("%s is a positive whole number", (name) => {
  for (const wrong of ["", "0", "-1", "1.5", "many", "30s", "Infinity", "NaN", "1e300"]) {
    expect(settingsOf({ [name]: wrong }), `${name}=${wrong}`).toEqual([name]);
  }
});

test.each([
  ["IDEMPOTENCY_FINGERPRINT", ["", "RAW", "canonical"]],
  ["IDEMPOTENCY_REUSE_STATUS", ["", "400", "200", "four"]],
  ["SERVER_TIMING", ["", "true", "ON"]],
  ["LAB", ["", "true", "ON", "1"]],
  ["CORS_ORIGIN", ["", "nonsense", "https://shop.example/", "shop.example"]],
])("%s is one of the values it names", (name, wrongs) => {
  for (const wrong of wrongs) {
    expect(settingsOf({ [name]: wrong }), `${name}=${wrong}`).toEqual([name]);
  }
});

test("every wrong setting is reported at once", () => {
  const env = {
    PENDING_TTL_MS: "soon",
    RETENTION_MS: "-5",
    SWEEP_BATCH_SIZE: "0",
    EVICTION_LAG_ALERT_MS: "60000",
    RESPONSE_LIMIT_BYTES: "1.5",
    BODY_LIMIT_BYTES: "",
    IDEMPOTENCY_FINGERPRINT: "md5",
    IDEMPOTENCY_REUSE_STATUS: "418",
    PROVIDER_TIMEOUT_MS: "x",
    SERVER_TIMING: "maybe",
    LAB: "perhaps",
    CORS_ORIGIN: "",
    ADMIN_TOKEN: "short",
    STRIPE_SECRET_KEY: "pk_test_public",
    STRIPE_API_BASE: "stripe.test",
    STRIPE_WEBHOOK_SECRETS: "",
    SANDBOX_WEBHOOK_URL: "/webhooks/stripe",
  };
  const settings = settingsOf(env).map((setting) => setting.replace(/\.\d+$/, ""));
  expect(settings.toSorted()).toEqual(Object.keys(env).toSorted());
});

test("an operator's token is one that Authorization can carry", () => {
  expect(problemsOf({ ADMIN_TOKEN: "c2l4dGVlbi1vci1tb3Jl+/~._-==" })).toEqual([]);
  for (const token of ["sixteen or more characters", "sixteen=characters", "siebzehn-zeichen-ü"]) {
    expect(settingsOf({ ADMIN_TOKEN: token }), token).toEqual(["ADMIN_TOKEN"]);
  }
});

test("wrong fields and wrong relations are reported together", () => {
  const fields = { SWEEP_BATCH_SIZE: "none", SERVER_TIMING: "maybe" };
  expect(settingsOf({ ...fields, PENDING_TTL_MS: "5000" }).toSorted()).toEqual([
    "PENDING_TTL_MS",
    "SERVER_TIMING",
    "SWEEP_BATCH_SIZE",
  ]);
  expect(settingsOf({ ...fields, RETENTION_MS: "20000" }).toSorted()).toEqual([
    "RETENTION_MS",
    "SERVER_TIMING",
    "SWEEP_BATCH_SIZE",
  ]);
});

test("a lease outlives the longest handler: the provider's timeout and a margin", () => {
  const provider = { PROVIDER_TIMEOUT_MS: "10000" };
  expect(problemsOf({ ...provider, PENDING_TTL_MS: "10500" })).toEqual([
    expect.stringContaining("PENDING_TTL_MS: must exceed the longest handler"),
  ]);
  expect(problemsOf({ ...provider, PENDING_TTL_MS: "10501" })).toEqual([]);
  expect(settingsOf({ PROVIDER_TIMEOUT_MS: "30000" })).toEqual(["PENDING_TTL_MS"]);
});

test("the alert for eviction waits for two intervals of the cron that wrangler.toml sets", () => {
  const toml = readFileSync(join(import.meta.dirname, "../../wrangler.toml"), "utf8");
  const crons: unknown = JSON.parse(/^crons = (.+)$/m.exec(toml)?.[1] ?? "[]");
  const minutes = Number(/^\*\/(\d+) /.exec(CRONS.sweep)?.[1]);
  expect(crons).toEqual([CRONS.sweep, CRONS.reconcile]);
  expect(CRON_INTERVAL_MS).toBe(minutes * 60_000);

  const least = 2 * CRON_INTERVAL_MS;
  expect(problemsOf({ EVICTION_LAG_ALERT_MS: String(least) })).toEqual([]);
  expect(problemsOf({ EVICTION_LAG_ALERT_MS: String(least - 1) })).toEqual([
    `EVICTION_LAG_ALERT_MS: must be a whole number from ${least} to 86400000`,
  ]);
});

test("a key outlasts its answer", () => {
  expect(problemsOf({ RETENTION_MS: "59999" })).toEqual([
    "RETENTION_MS: must be at least twice PENDING_TTL_MS: the window counts from the claim, and must outlast the answer.",
  ]);
  expect(problemsOf({ RETENTION_MS: "60000" })).toEqual([]);
});

test.each([
  ["STRIPE_SECRET_KEY", ["", "pk_test_abc", "whsec_abc", "sk_test_a b"]],
  ["SANDBOX_WEBHOOK_URL", ["", "/webhooks", "shop.example", "ftp://shop.example/"]],
])("%s is refused when it cannot be one, and is not repeated in the message", (name, wrongs) => {
  const others = { STRIPE_WEBHOOK_SECRETS: "whsec_a" };
  for (const wrong of wrongs) {
    const problems = problemsOf({ ...others, [name]: wrong });
    expect(problems, `${name}=${wrong}`).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^${name}: must be `));
    expect(problems[0]).not.toContain(wrong || "sk_test_abc");
  }
});

test("Stripe's API is at a protocol, host and port, and only a real key goes there", () => {
  const key = { STRIPE_SECRET_KEY: "sk_test_abc" };
  for (const wrong of [
    "",
    "api.test",
    "ftp://api.test",
    "https://api.test/v1",
    "https://u:p@api.test",
    "https://api.test?a=1",
    "http://a:b:c",
  ]) {
    expect(settingsOf({ ...key, STRIPE_API_BASE: wrong }), wrong).toContain("STRIPE_API_BASE");
  }
  expect(problemsOf({ ...key, STRIPE_API_BASE: "https://api.test/" })).toEqual([]);
  expect(problemsOf({ STRIPE_API_BASE: "https://api.test" })).toEqual([
    "STRIPE_API_BASE: needs STRIPE_SECRET_KEY: without it payments go to the sandbox, not to this address.",
  ]);
});

test("webhooks are signed, so the sandbox sends none without a secret", () => {
  const url = { SANDBOX_WEBHOOK_URL: "http://127.0.0.1:8787/webhooks/stripe" };
  expect(problemsOf(url)).toEqual([
    "SANDBOX_WEBHOOK_URL: needs STRIPE_WEBHOOK_SECRETS: an event that is not signed is refused.",
  ]);
  expect(problemsOf({ ...url, STRIPE_WEBHOOK_SECRETS: "whsec_a" })).toEqual([]);
  for (const wrong of ["", "whsec_a,", "whsec_a,,whsec_b", "whsec a", "a,b,c,d,e"]) {
    expect(problemsOf({ STRIPE_WEBHOOK_SECRETS: wrong }).join(), wrong).toContain(
      "STRIPE_WEBHOOK_SECRETS",
    );
  }
});

test("a relation says nothing while one of its settings is not even a number", () => {
  expect(settingsOf({ PROVIDER_TIMEOUT_MS: "60000", PENDING_TTL_MS: "x" })).toEqual([
    "PENDING_TTL_MS",
  ]);
  expect(settingsOf({ RETENTION_MS: "1", PENDING_TTL_MS: "x" })).toEqual(["PENDING_TTL_MS"]);
});

test("the settings cannot be changed", () => {
  const config = configOf({});
  expect(Object.isFrozen(config)).toBe(true);
  expect(() => Object.assign(config, { pendingTtlMs: 1 })).toThrow(TypeError);
  expect(config.pendingTtlMs).toBe(30_000);
});

test("one environment is read once; another one has settings of its own", () => {
  const env = { PENDING_TTL_MS: "40000" };
  const config = configOf(env);
  env.PENDING_TTL_MS = "50000";
  expect(configOf(env)).toBe(config);
  expect(configOf({ ...env }).pendingTtlMs).toBe(50_000);
});

test("wrong settings are not remembered: mended, the same environment is accepted", () => {
  const env = { PENDING_TTL_MS: "soon" };
  expect(() => configOf(env)).toThrow("Wrong settings");
  expect(() => configOf(env)).toThrow("Wrong settings");
  env.PENDING_TTL_MS = "40000";
  expect(configOf(env).pendingTtlMs).toBe(40_000);
});
