import { expect, test } from "vitest";

import { configOf } from "../../src/env.ts";

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
    responseLimitBytes: 16_384,
    bodyLimitBytes: 65_536,
    fingerprintMode: "raw",
    reuseStatus: 422,
    providerTimeoutMs: 10_000,
    hasServerTiming: false,
    corsOrigin: "*",
  });
});

test("every setting is read from its variable, which is text", () => {
  const env = {
    PENDING_TTL_MS: "2000",
    RETENTION_MS: "60000",
    SWEEP_BATCH_SIZE: "7",
    RESPONSE_LIMIT_BYTES: "1024",
    BODY_LIMIT_BYTES: "2048",
    IDEMPOTENCY_FINGERPRINT: "canonical-json",
    IDEMPOTENCY_REUSE_STATUS: "409",
    PROVIDER_TIMEOUT_MS: "1000",
    SERVER_TIMING: "on",
    CORS_ORIGIN: "https://shop.example",
  };
  expect(configOf(env)).toEqual({
    pendingTtlMs: 2_000,
    retentionMs: 60_000,
    sweepBatchSize: 7,
    responseLimitBytes: 1_024,
    bodyLimitBytes: 2_048,
    fingerprintMode: "canonical-json",
    reuseStatus: 409,
    providerTimeoutMs: 1_000,
    hasServerTiming: true,
    corsOrigin: "https://shop.example",
  });
});

test("bindings beside the settings do not disturb them", () => {
  expect(configOf({ DB: { prepare() {} }, PENDING_TTL_MS: "40000" }).pendingTtlMs).toBe(40_000);
});

test.each([
  "PENDING_TTL_MS",
  "RETENTION_MS",
  "SWEEP_BATCH_SIZE",
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
  ["CORS_ORIGIN", [""]],
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
    RESPONSE_LIMIT_BYTES: "1.5",
    BODY_LIMIT_BYTES: "",
    IDEMPOTENCY_FINGERPRINT: "md5",
    IDEMPOTENCY_REUSE_STATUS: "418",
    PROVIDER_TIMEOUT_MS: "x",
    SERVER_TIMING: "maybe",
    CORS_ORIGIN: "",
  };
  expect(settingsOf(env).toSorted()).toEqual(Object.keys(env).toSorted());
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

test("a claim does not expire while it is held", () => {
  expect(problemsOf({ RETENTION_MS: "30000" })).toEqual([
    "RETENTION_MS: must exceed PENDING_TTL_MS: a claim must not expire while it is held.",
  ]);
  expect(problemsOf({ RETENTION_MS: "30001" })).toEqual([]);
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
