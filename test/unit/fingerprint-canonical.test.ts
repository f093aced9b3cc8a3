import { isDeepStrictEqual } from "node:util";

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { canonical, fingerprint } from "./sent-request.ts";

const json = fc.jsonValue({ stringUnit: "binary" });

/** The same JSON text in another spelling: names backwards, white space, exponents, escapes. */
function respelled(value: unknown): string {
  if (typeof value === "number") return value.toExponential();
  if (typeof value === "string") {
    const units = Array.from({ length: value.length }, (_, at) => value.charCodeAt(at));
    return `"${units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("")}"`;
  }
  if (Array.isArray(value)) return `[ ${value.map(respelled).join(" ,\n")} ]`;
  if (typeof value !== "object" || value === null) return ` ${JSON.stringify(value)}\t`;
  const members = Object.entries(value).toReversed();
  return `{\r\n${members.map(([name, member]) => `${respelled(name)} : ${respelled(member)}`).join(" , ")}}`;
}

test("canonical, key order, white space and the spelling of numbers and strings do not count", async () => {
  await fc.assert(
    fc.asyncProperty(json, async (value) => {
      expect(await canonical(respelled(value))).toBe(await canonical(JSON.stringify(value)));
    }),
    { numRuns: 500 },
  );
  expect(await canonical('{"a":100,"b":[1,"é"]}')).toBe(
    await canonical('{ "b": [1.0, "\\u00e9"], "a": 1E2 }'),
  );
});

test("canonical, values count", async () => {
  await fc.assert(
    fc.asyncProperty(json, json, async (one, other) => {
      const texts = [JSON.stringify(one), JSON.stringify(other)] as const;
      fc.pre(!isDeepStrictEqual(JSON.parse(texts[0]), JSON.parse(texts[1])));
      expect(await canonical(texts[0])).not.toBe(await canonical(texts[1]));
    }),
    { numRuns: 500 },
  );
});

test("canonical, neither types nor the order of a list nor a member's absence are lost", async () => {
  const bodies = [
    "1",
    '"1"',
    "[1]",
    "[1,2]",
    "[2,1]",
    "[[1],2]",
    "{}",
    "[]",
    "null",
    "false",
    "0",
    '""',
    '{"a":null}',
    '{"a":1}',
    '{"A":1}',
    '{"__proto__":1}',
    '{"toJSON":1}',
  ];
  const all = await Promise.all(bodies.map(canonical));
  expect(new Set(all).size).toBe(bodies.length);
});

test.each<[string, string | Uint8Array]>([
  ["nothing", ""],
  ["text", "hello"],
  ["JSON cut short", '{"a":1'],
  ["two values", "{}{}"],
  ["a trailing comma", "[1,]"],
  ["a form", "a=1&b=2"],
  ["invalid UTF-8 in a JSON string", Uint8Array.of(0x22, 0xff, 0x22)],
  ["a number that no double holds", "[1e400]"],
  ["a lone surrogate, which UTF-8 cannot carry", '"\\ud800"'],
])("canonical, the bytes count where there is no canonical form: %s", async (_what, body) => {
  expect(await canonical(body)).toBe(await fingerprint({ body, mode: "raw" }));
});

test("canonical, two bodies without a canonical form do not share a fingerprint", async () => {
  const bodies = [
    '"\\ud800"',
    '"\\ud801"',
    '"\\uD800"',
    '"\\ufffd"',
    Uint8Array.of(0x22, 0xff, 0x22),
    Uint8Array.of(0x22, 0xfe, 0x22),
    "[1e400]",
    "[1e401]",
    "[null]",
  ];
  const all = await Promise.all(bodies.map(canonical));
  expect(new Set(all).size).toBe(bodies.length);
});

test("a raw and a canonical fingerprint are never the same, not even of canonical bytes", async () => {
  const spellings = json.map((value) => JSON.stringify(value));
  await fc.assert(
    fc.asyncProperty(fc.oneof(spellings, json.map(respelled)), spellings, async (raw, other) => {
      const seen = [await canonical(raw), await canonical(other)];
      expect(seen).not.toContain(await fingerprint({ body: raw, mode: "raw" }));
    }),
  );
  expect(await canonical("{}")).not.toBe(await fingerprint({ body: "{}", mode: "raw" }));
});

test("JSON nested 30,000 levels deep has a fingerprint too", async () => {
  const nested = (inner: string) => `${'{"a":['.repeat(15_000)}${inner}${"]}".repeat(15_000)}`;
  const deep = await canonical(nested("1"));
  expect(deep).toMatch(/^v1:[0-9a-f]{64}$/);
  expect(await canonical(nested("1"))).toBe(deep);
  expect(await canonical(nested("2"))).not.toBe(deep);
  expect(await fingerprint({ body: nested("1") })).toMatch(/^v1:[0-9a-f]{64}$/);
});
