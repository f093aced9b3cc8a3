import * as fc from "fast-check";
import { expect, test } from "vitest";

import { bytesOf, canonical, expectedV1, fingerprint, order, type Sent } from "./sent-request.ts";

// Made of what the encoding itself is made of, so that parts can be mistaken for lengths.
const confusable = fc.string({ unit: fc.constantFrom("0", "1", "2", ":", "-", "a"), maxLength: 4 });
const header = fc.option(confusable, { nil: null });
const requests: fc.Arbitrary<Sent> = fc.record({
  method: fc.constantFrom("POST", "post", "PATCH", "DELETE"),
  pathAndQuery: confusable,
  contentType: header,
  apiVersion: header,
  body: fc.oneof(confusable, fc.uint8Array({ maxLength: 4 })),
  mode: fc.constant("raw" as const),
});

test("a fingerprint is `v1:` and 64 hex digits", async () => {
  expect(await fingerprint()).toMatch(/^v1:[0-9a-f]{64}$/);
});

test("version 1 is pinned: rows written by an older deploy must still be recognised", async () => {
  expect(await fingerprint()).toBe(
    "v1:d6364eb3c67f6eedfadcac0c23c0cbeb6a4cbdb1c3264bbe303b723e00ef3e3e",
  );
  expect(await canonical('{ "b": 1.0, "a": "\\u00e9" }')).toBe(
    "v1:57cc82cbf72b2848c5f311a94dbd11a8714d81f460550df148abe1a7d706ded8",
  );
});

test("version 1 hashes method, path and query, two headers, mode and body, each with its length", async () => {
  expect(await fingerprint()).toBe(
    expectedV1(["POST", order.pathAndQuery, "application/json", null, "raw", order.body]),
  );
  expect(await canonical('{ "b": 1.0, "a": "\\u00e9" }')).toBe(
    expectedV1([
      "POST",
      order.pathAndQuery,
      "application/json",
      null,
      "canonical-json",
      '{"a":"é","b":1}',
    ]),
  );
  await fc.assert(
    fc.asyncProperty(requests, async (sent) => {
      const { method, pathAndQuery, contentType, apiVersion, body } = sent;
      expect(await fingerprint(sent)).toBe(
        expectedV1([method.toUpperCase(), pathAndQuery, contentType, apiVersion, "raw", body]),
      );
    }),
  );
});

function identity({ method, pathAndQuery, contentType, apiVersion, body }: Sent): string {
  const parts = [method.toUpperCase(), pathAndQuery, contentType, apiVersion, [...bytesOf(body)]];
  return JSON.stringify(parts);
}

test("two different requests never share a fingerprint", async () => {
  await fc.assert(
    fc.asyncProperty(requests, requests, async (one, other) => {
      fc.pre(identity(one) !== identity(other));
      expect(await fingerprint(one)).not.toBe(await fingerprint(other));
    }),
    { numRuns: 1000 },
  );
});

test("a request that differs in one part alone has another fingerprint", async () => {
  const parts = ["method", "pathAndQuery", "contentType", "apiVersion", "body"] as const;
  await fc.assert(
    fc.asyncProperty(requests, requests, fc.constantFrom(...parts), async (one, other, part) => {
      const changed = { ...one, [part]: other[part] };
      fc.pre(identity(one) !== identity(changed));
      expect(await fingerprint(changed)).not.toBe(await fingerprint(one));
    }),
    { numRuns: 1000 },
  );
});

test("what moves from one part to its neighbour changes the fingerprint", async () => {
  const text = fc.string({
    unit: fc.constantFrom("0", "1", ":", "-", "A"),
    minLength: 1,
    maxLength: 12,
  });
  const cuts = fc
    .array(fc.nat({ max: 12 }), { minLength: 4, maxLength: 4 })
    .map((places) => places.toSorted((a, b) => a - b) as [number, number, number, number]);
  const cut = (whole: string, [a, b, c, d]: [number, number, number, number]): Sent => ({
    method: whole.slice(0, a),
    pathAndQuery: whole.slice(a, b),
    contentType: whole.slice(b, c),
    apiVersion: whole.slice(c, d),
    body: whole.slice(d),
    mode: "raw",
  });
  await fc.assert(
    fc.asyncProperty(text, cuts, cuts, async (whole, here, there) => {
      const [one, other] = [cut(whole, here), cut(whole, there)];
      fc.pre(identity(one) !== identity(other));
      expect(await fingerprint(one)).not.toBe(await fingerprint(other));
    }),
    { numRuns: 1000 },
  );
});

test("the same request always has the same fingerprint, whatever else its headers say", async () => {
  const others = fc.dictionary(
    fc.constantFrom(
      "accept",
      "authorization",
      "idempotency-key",
      "prefer",
      "user-agent",
      "x-request-id",
    ),
    confusable,
  );
  await fc.assert(
    fc.asyncProperty(requests, others, others, async (sent, some, rest) => {
      const again = { ...sent, body: Uint8Array.from(bytesOf(sent.body)) };
      expect(await fingerprint(again, rest)).toBe(await fingerprint(sent, some));
    }),
  );
});

test("the method's case does not count, the method does", async () => {
  expect(await fingerprint({ method: "post" })).toBe(await fingerprint({ method: "POST" }));
  expect(await fingerprint({ method: "PATCH" })).not.toBe(await fingerprint({ method: "POST" }));
});

test("an absent header differs from an empty one", async () => {
  const all = await Promise.all([
    fingerprint({ contentType: null, apiVersion: null }),
    fingerprint({ contentType: "", apiVersion: null }),
    fingerprint({ contentType: null, apiVersion: "" }),
    fingerprint({ contentType: "", apiVersion: "" }),
    fingerprint({ contentType: "-", apiVersion: null }),
  ]);
  expect(new Set(all).size).toBe(all.length);
});

test("content type and API version count, and which of them said it", async () => {
  const all = await Promise.all([
    fingerprint({ contentType: "1", apiVersion: null }),
    fingerprint({ contentType: null, apiVersion: "1" }),
    fingerprint({ contentType: "application/json" }),
    fingerprint({ contentType: "application/json; charset=utf-8" }),
    fingerprint({ apiVersion: "2026-01-01" }),
    fingerprint({ apiVersion: "2026-02-01" }),
  ]);
  expect(new Set(all).size).toBe(all.length);
});

test("path and query count verbatim: order, percent-encoding, case, an empty query", async () => {
  const paths = [
    "/orders",
    "/orders?",
    "/orders/",
    "/Orders",
    "/orders?a=1&b=2",
    "/orders?b=2&a=1",
    "/orders?a=1&b=2&",
    "/orders?a=1&b=2&c=3",
    "/orders?a=1&c=3&b=2",
    "/orders?q=a%20b",
    "/orders?q=a+b",
    "/orders?q=%2F",
    "/orders?q=%2f",
    "/orders?q=/",
  ];
  const all = await Promise.all(paths.map((pathAndQuery) => fingerprint({ pathAndQuery })));
  expect(new Set(all).size).toBe(paths.length);
});

test("raw, every byte of the body counts, also white space and bytes that are not UTF-8", async () => {
  const bodies = [
    '{"a":1}',
    '{"a": 1}',
    '{"a":1}\n',
    '\ufeff{"a":1}',
    '{"a":1.0}',
    "",
    Uint8Array.of(0xff),
    Uint8Array.of(0xfe),
    "\ufffd",
  ];
  const all = await Promise.all(bodies.map((body) => fingerprint({ body })));
  expect(new Set(all).size).toBe(bodies.length);
});
