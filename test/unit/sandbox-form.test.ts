import * as fc from "fast-check";
import { expect, test } from "vitest";

import { decodeForm } from "../../src/payments/sandbox/form.ts";

const decoded = (form: string) => JSON.parse(JSON.stringify(decodeForm(form))) as unknown;

test.each([
  ["", {}],
  ["amount=1&currency=eur", { amount: "1", currency: "eur" }],
  ["metadata[a]=1&metadata[b]=2", { metadata: { a: "1", b: "2" } }],
  ["metadata%5Ba%5D=1", { metadata: { a: "1" } }],
  ["metadata[order.id]=x%26y%3D%5B%5D", { metadata: { "order.id": "x&y=[]" } }],
  ["a=+b+%2B", { a: " b +" }],
  ["a[b][c][d]=1", { a: { b: { c: { d: "1" } } } }],
  ["expand[0]=x&expand[1]=y", { expand: { 0: "x", 1: "y" } }],
  ["expand[]=x&expand[]=y", { expand: { 0: "x", 1: "y" } }],
  ["a[999999999]=1", { a: { 999999999: "1" } }],
  ["metadata=", { metadata: "" }],
  ["a=1&a=2", { a: "2" }],
  ["?a=1", { a: "1" }],
])("%s is decoded as Stripe nests it", (form, params) => {
  expect(decoded(form)).toEqual(params);
});

test.each([
  "[a]=1",
  "a[b=1",
  "a]b=1",
  "a[b]c=1",
  "=1",
  "a=1&a[b]=2",
  "a[b]=1&a=2",
  "a[b][c][d][e]=1",
])("%s is not well formed", (form) => expect(decodeForm(form)).toBeNull());

test("names that every object has are names like any other", () => {
  const params = decodeForm("__proto__[polluted]=1&metadata[__proto__]=2&metadata[constructor]=3")!;
  expect(Object.keys(params)).toEqual(["__proto__", "metadata"]);
  expect(Object.entries(params["metadata"]!)).toEqual([
    ["__proto__", "2"],
    ["constructor", "3"],
  ]);
  expect(Object.prototype).not.toHaveProperty("polluted");
});

test("any metadata comes through the encoding unchanged", () => {
  const name = fc.string({ minLength: 1, unit: "grapheme" }).filter((text) => !/[[\]]/.test(text));
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.tuple(name, fc.string({ unit: "grapheme" })), { selector: ([key]) => key }),
      (pairs) => {
        const form = pairs.map(
          ([key, value]) => `metadata[${encodeURIComponent(key)}]=${encodeURIComponent(value)}`,
        );
        const { metadata = {} } = decodeForm(form.join("&"))!;
        expect(new Map(Object.entries(metadata))).toEqual(new Map(pairs));
      },
    ),
  );
});
