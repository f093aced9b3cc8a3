import * as fc from "fast-check";
import { expect, test } from "vitest";

import { KEY_SYNTAX, MAX_KEY_LENGTH, parseIdempotencyKey } from "../../src/idempotency/key.ts";

const printable = fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code));
const unprintable = fc
  .oneof(
    fc.integer({ min: 0, max: 0x1f }),
    fc.integer({ min: 0x7f, max: 0xff }),
    fc.integer({ min: 0x100, max: 0xffff }),
  )
  .map((code) => String.fromCharCode(code));
const keys = fc.string({ unit: printable, minLength: 1, maxLength: MAX_KEY_LENGTH });
const bareKeys = fc
  .string({ unit: printable.filter((c) => c !== ","), minLength: 1, maxLength: MAX_KEY_LENGTH })
  .filter((key) => !key.startsWith('"'));

/** RFC 9651 §4.1.6: the two characters that a String must escape. */
function quoted(key: string): string {
  return `"${key.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

/** What a server sees of a header that a client set. */
function received(...values: string[]): string | null {
  const headers = new Headers();
  for (const value of values) headers.append("idempotency-key", value);
  return headers.get("idempotency-key");
}

test("every printable ASCII key of 1 to 255 characters can be sent quoted", () => {
  fc.assert(
    fc.property(keys, (key) => {
      expect(parseIdempotencyKey(received(quoted(key)))).toEqual({ kind: "key", key });
    }),
    { numRuns: 1000 },
  );
});

test("the bare and the quoted form name the same key", () => {
  fc.assert(
    fc.property(bareKeys, (key) => {
      expect(parseIdempotencyKey(key)).toEqual({ kind: "key", key });
      expect(parseIdempotencyKey(quoted(key))).toEqual({ kind: "key", key });
    }),
    { numRuns: 1000 },
  );
});

test("two different keys stay different in the quoted form", () => {
  fc.assert(
    fc.property(fc.uniqueArray(keys, { minLength: 2, maxLength: 2 }), ([one, other]) => {
      expect(parseIdempotencyKey(quoted(one!))).not.toEqual(parseIdempotencyKey(quoted(other!)));
    }),
  );
});

test.each([
  ['"a\\"b"', 'a"b'],
  ['"a\\\\b"', "a\\b"],
  ['"\\\\\\""', '\\"'],
  // Bare, a backslash escapes nothing and a quote inside is a character like any other.
  ["a\\\\b", "a\\\\b"],
  ['a"b"', 'a"b"'],
  ["'abc'", "'abc'"],
])("%s is the key %s", (header, key) => {
  expect(parseIdempotencyKey(header)).toEqual({ kind: "key", key });
});

test.each(["8e03978e,", ",8e03978e", "a,b", "a, b"])("bare, the comma in %j is refused", (key) => {
  expect(parseIdempotencyKey(key)).toMatchObject({
    kind: "invalid",
    detail: expect.stringContaining("comma"),
  });
});

test("quoted, a comma is a character like any other", () => {
  expect(parseIdempotencyKey('"a, b"')).toEqual({ kind: "key", key: "a, b" });
});

test("two headers of one name are refused, bare or quoted, also when both are the same", () => {
  fc.assert(
    fc.property(bareKeys, bareKeys, (one, other) => {
      const headers = [
        received(one, other),
        received(one, one),
        received(quoted(one), quoted(other)),
        received(quoted(one), quoted(one)),
        received(quoted(one), other),
        received(one, quoted(other)),
      ];
      expect(headers.map((header) => parseIdempotencyKey(header).kind)).toEqual(
        headers.map(() => "invalid"),
      );
    }),
  );
});

test.each([
  ["unterminated", '"abc'],
  ["a lone quote", '"'],
  ["something after the end", '"abc"x'],
  ["a parameter", '"abc";v=1'],
  ["two strings", '"abc" "def"'],
  ["an unescaped quote", '"a"b"'],
  ["an escape of another character", '"a\\nb"'],
  ["an escape without a character", '"abc\\"'],
])("a quoted key with %s is refused", (_what, header) => {
  expect(parseIdempotencyKey(header)).toMatchObject({
    kind: "invalid",
    detail: expect.stringContaining("RFC 9651 String"),
  });
});

test("an absent header is no key", () => {
  expect(parseIdempotencyKey(null)).toEqual({ kind: "absent" });
  expect(parseIdempotencyKey(undefined)).toEqual({ kind: "absent" });
  expect(parseIdempotencyKey(received())).toEqual({ kind: "absent" });
});

test("an empty key is refused, bare or quoted", () => {
  const empty = { kind: "invalid", detail: "The key is empty." };
  expect(parseIdempotencyKey(received(""))).toEqual(empty);
  expect(parseIdempotencyKey(received('""'))).toEqual(empty);
});

test("HTTP trims a header, so a bare key of white space is an empty one", () => {
  expect(parseIdempotencyKey(received("  \t "))).toEqual({
    kind: "invalid",
    detail: "The key is empty.",
  });
});

test("space around a bare key is not part of it; inside quotes it is", () => {
  expect(parseIdempotencyKey(received(" abc\t"))).toEqual({ kind: "key", key: "abc" });
  expect(parseIdempotencyKey(received(' "abc" '))).toEqual({ kind: "key", key: "abc" });
  expect(parseIdempotencyKey(received('" abc "'))).toEqual({ kind: "key", key: " abc " });
  expect(parseIdempotencyKey(received('" "'))).toEqual({ kind: "key", key: " " });
});

test("255 characters are accepted and 256 are not, counted without quotes and escapes", () => {
  expect(MAX_KEY_LENGTH).toBe(255);
  const longest = `${"x".repeat(251)}"\\"\\`;
  expect(parseIdempotencyKey(longest)).toEqual({ kind: "key", key: longest });
  expect(parseIdempotencyKey(quoted(longest))).toEqual({ kind: "key", key: longest });
  expect(quoted(longest)).toHaveLength(261);

  const tooLong = {
    kind: "invalid",
    detail: "The key has 256 characters; at most 255 are accepted.",
  };
  expect(parseIdempotencyKey(`x${longest}`)).toEqual(tooLong);
  expect(parseIdempotencyKey(quoted(`x${longest}`))).toEqual(tooLong);
});

test("a character that is not printable ASCII is refused wherever it stands", () => {
  const context = fc.string({
    unit: printable.filter((c) => c !== "," && c !== '"'),
    maxLength: 20,
  });
  fc.assert(
    fc.property(context, unprintable, context, (before, character, after) => {
      const key = `${before}${character}${after}`;
      expect(parseIdempotencyKey(key).kind).toBe("invalid");
      expect(parseIdempotencyKey(quoted(key)).kind).toBe("invalid");
    }),
    { numRuns: 1000 },
  );
});

test.each([
  ["NUL", "a\0b"],
  ["a tab", "a\tb"],
  ["a line feed at the end", "abc\n"],
  ["the last control character before the space", "abc\x1f"],
  ["DEL, right after the tilde", "abc\x7f"],
  ["Latin-1", "caf\xe9"],
  ["an emoji", "key-\u{1f511}"],
  ["a no-break space", "a\xa0b"],
])("%s is refused, bare and quoted", (_what, key) => {
  expect(parseIdempotencyKey(key)).toMatchObject({
    kind: "invalid",
    detail: expect.stringContaining("printable ASCII"),
  });
  expect(parseIdempotencyKey(quoted(key)).kind).toBe("invalid");
});

test("the documented syntax is what is accepted", () => {
  const anything = fc.string({
    unit: fc.oneof(printable, unprintable, fc.constantFrom('"', "\\", ",", " ")),
    maxLength: MAX_KEY_LENGTH + 5,
    size: "max",
  });
  const nearly = fc.oneof(
    anything,
    keys.map(quoted),
    keys,
    anything.map(quoted),
    anything.map((value) => `"${value}"`),
  );
  fc.assert(
    fc.property(nearly, (value) => {
      const isAccepted = parseIdempotencyKey(value).kind === "key";
      expect(new RegExp(KEY_SYNTAX, "u").test(value)).toBe(isAccepted);
    }),
    {
      numRuns: 5_000,
      examples: [
        ["a".repeat(255)],
        ["a".repeat(256)],
        [quoted('"'.repeat(255))],
        [quoted('"'.repeat(256))],
        [""],
        ['""'],
        [" "],
      ],
    },
  );
});
