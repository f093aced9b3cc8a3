import * as fc from "fast-check";
import { expect, test } from "vitest";

import { MAX_WAIT_SECONDS, preferredWaitSeconds } from "../../src/idempotency/prefer.ts";

test("without a preference nobody waits", () => {
  expect(preferredWaitSeconds(undefined)).toBe(0);
  expect(preferredWaitSeconds("")).toBe(0);
  expect(preferredWaitSeconds("respond-async")).toBe(0);
});

test.each([
  ["wait=0", 0],
  ["wait=1", 1],
  ["wait=9", 9],
  ["wait=10", 10],
  ["wait=11", MAX_WAIT_SECONDS],
  ["wait=86400", 10],
  ["wait=999999999", 10],
  ["wait=007", 7],
])("%s is %i seconds: ten at most", (prefer, seconds) => {
  expect(preferredWaitSeconds(prefer)).toBe(seconds);
});

test.each([
  ["respond-async, wait=5", 5],
  ["wait=5, respond-async", 5],
  ["return=minimal,wait=5", 5],
  ["handling=lenient, , wait=5", 5],
  ["return=representation; foo=bar, wait=5", 5],
])("it is found among other preferences: %s", (prefer, seconds) => {
  expect(preferredWaitSeconds(prefer)).toBe(seconds);
});

test("headers that arrive one by one are one list", () => {
  const headers = new Headers([
    ["prefer", "respond-async"],
    ["prefer", "wait=4"],
  ]);
  expect(preferredWaitSeconds(headers.get("prefer")!)).toBe(4);
});

test.each([
  "WAIT=5",
  "Wait=5",
  'wait="5"',
  "wait = 5",
  "\twait =\t5 ",
  "wait=5; foo=bar",
  "wait=5;",
])("case, quotes, space and parameters do not matter: %s", (prefer) => {
  expect(preferredWaitSeconds(prefer)).toBe(5);
});

// RFC 7240 §2: the first instance of a preference is the one that counts.
test.each([
  ["wait=2, wait=7", 2],
  ["wait=7, wait=2", 7],
  ["wait=0, wait=7", 0],
])("said twice, the first counts: %s", (prefer, seconds) => {
  expect(preferredWaitSeconds(prefer)).toBe(seconds);
});

test.each([
  "wait",
  "wait=",
  'wait=""',
  "wait=-1",
  "wait=+5",
  "wait=5.5",
  "wait=5s",
  "wait=5 6",
  "wait=1e1",
  "wait=0x5",
  "wait=NaN",
  "wait=Infinity",
  "wait='5'",
  "wait=\u0665",
  "wait: 5",
])("what is not a number of seconds is no preference: %s", (prefer) => {
  expect(preferredWaitSeconds(prefer)).toBe(0);
});

test.each([
  "no-wait=5",
  "nowait=5",
  "await=5",
  "wait-for=5",
  "waiting=5",
  "x wait=5",
  "respond-async; wait=5",
  "foo=wait=5",
])("another preference, or a parameter of one, is not taken for it: %s", (prefer) => {
  expect(preferredWaitSeconds(prefer)).toBe(0);
});

test("whatever is sent, the wait is a whole number from 0 to 10", () => {
  const pieces = fc.constantFrom("wait", "=", '"', ",", ";", " ", "-", "5", "12", "999999999", "x");
  const wholeSeconds = Array.from({ length: MAX_WAIT_SECONDS + 1 }, (_, seconds) => seconds);
  const headers = fc.oneof(
    fc.string(),
    fc.array(pieces).map((parts) => parts.join("")),
  );
  fc.assert(
    fc.property(headers, (prefer) => {
      expect(wholeSeconds).toContain(preferredWaitSeconds(prefer));
    }),
    { numRuns: 1000 },
  );
});

test("a header with a quote that is never closed is read in linear time", () => {
  // Ten times the length may take ten times as long, and not a hundred times.
  const timeOf = (repeats: number) => {
    const header = `"${'\\"'.repeat(repeats)}`;
    const start = performance.now();
    for (let i = 0; i < 20; i++) preferredWaitSeconds(header);
    return performance.now() - start;
  };
  // Interleaved, and the least of each: what else the machine does only ever adds.
  const times = Array.from({ length: 10 }, () => [timeOf(3_000), timeOf(30_000)] as const);
  const short = Math.min(...times.map(([time]) => time));
  const long = Math.min(...times.map(([, time]) => time));

  expect(long / short).toBeLessThan(40);
});
