import * as fc from "fast-check";
import { expect, test } from "vitest";

import type { Operation, Outcome } from "../../scripts/chaos/history.ts";
import { findViolations, isAtomic } from "../../scripts/chaos/linearizability.ts";
import { historyOf, type Move } from "./atomic-key.ts";

const executed = (bytes: string): Outcome => ({ kind: "decided", isReplay: false, bytes });
const replayed = (bytes: string): Outcome => ({ kind: "decided", isReplay: true, bytes });
const inProgress: Outcome = { kind: "in_progress" };
const reused: Outcome = { kind: "reused" };
const lost: Outcome = { kind: "undecided", why: "the connection broke" };

/** Request A or B, sent and answered at these times. */
function sent(request: string, [invokedAt, answeredAt]: [number, number], outcome: Outcome) {
  return { key: "key", client: "client", request, invokedAt, answeredAt, outcome };
}

const atomic: Record<string, Operation[]> = {
  "nothing at all": [],
  "one request, executed": [sent("A", [0, 9], executed("1"))],
  "a request that nobody answered": [sent("A", [0, 9], lost)],
  "an execution and its replays": [
    sent("A", [0, 9], executed("1")),
    sent("A", [10, 19], replayed("1")),
    sent("A", [20, 29], replayed("1")),
  ],
  "a replay that is answered before the execution that it replays": [
    sent("A", [0, 9], executed("1")),
    sent("A", [1, 5], replayed("1")),
  ],
  "duplicates at once, of which one executes": [
    sent("A", [0, 9], inProgress),
    sent("A", [1, 8], executed("1")),
    sent("A", [2, 7], inProgress),
    sent("A", [3, 12], replayed("1")),
  ],
  "a lost answer that was one": [sent("A", [0, 9], lost), sent("A", [10, 19], replayed("1"))],
  "a lost answer that was none": [sent("A", [0, 9], lost), sent("A", [10, 19], executed("1"))],
  "a dead owner that is waited for, and taken over": [
    sent("A", [0, 9], lost),
    sent("A", [10, 19], inProgress),
    sent("A", [20, 29], executed("1")),
  ],
  "an owner that lives on behind a lost answer, and commits after others have been told to wait": [
    sent("A", [0, 9], lost),
    sent("A", [10, 19], inProgress),
    sent("A", [20, 29], replayed("1")),
  ],
  "an undecided answer after the key was completed": [
    sent("A", [0, 9], executed("1")),
    sent("A", [10, 19], lost),
    sent("A", [20, 29], replayed("1")),
  ],
  "another request, refused while the first is executing": [
    sent("A", [0, 9], executed("1")),
    sent("B", [1, 5], reused),
  ],
  "another request, refused after the first was completed": [
    sent("A", [0, 9], executed("1")),
    sent("B", [10, 19], reused),
  ],
  "two requests at once, of which the second is first": [
    sent("A", [0, 9], reused),
    sent("B", [1, 8], executed("1")),
  ],
  "another request, refused because of one whose answer was lost": [
    sent("A", [0, 9], lost),
    sent("B", [10, 19], reused),
    sent("A", [20, 29], executed("1")),
  ],
  "an owner that was taken over and shows its successor's answer": [
    sent("A", [0, 30], replayed("1")),
    sent("B", [1, 5], reused),
    sent("A", [10, 20], executed("1")),
  ],
  "an owner that was taken over and is told to wait for its successor": [
    sent("A", [0, 20], inProgress),
    sent("B", [1, 5], reused),
    sent("A", [10, 30], executed("1")),
  ],
  "an answer at the very moment at which the next request is sent": [
    sent("A", [0, 9], replayed("1")),
    sent("A", [9, 19], executed("1")),
  ],
  "an owner that was taken over by one who waits for a third": [
    sent("A", [0, 10], inProgress),
    sent("A", [1, 30], inProgress),
    sent("A", [20, 40], executed("1")),
  ],
  "two owners that were taken over, one after the other": [
    sent("A", [0, 14], inProgress),
    sent("B", [1, 5], reused),
    sent("A", [10, 24], inProgress),
    sent("A", [20, 30], executed("1")),
  ],
};

test.each(Object.entries(atomic))("explained: %s", (_, history) => {
  expect(isAtomic(history)).toBe(true);
});

const broken: Record<string, Operation[]> = {
  "two executions": [sent("A", [0, 9], executed("1")), sent("A", [10, 19], executed("1"))],
  "two executions at once": [sent("A", [0, 9], executed("1")), sent("A", [1, 8], executed("1"))],
  "two different answers": [sent("A", [0, 9], executed("1")), sent("A", [10, 19], executed("2"))],
  "a replay with other bytes": [
    sent("A", [0, 9], executed("1")),
    sent("A", [1, 19], replayed("2")),
  ],
  "two replays that differ, of an execution whose answer was lost": [
    sent("A", [0, 9], lost),
    sent("A", [10, 19], replayed("1")),
    sent("A", [20, 29], replayed("2")),
  ],
  "a replay before anything was sent": [
    sent("A", [0, 9], replayed("1")),
    sent("A", [10, 19], executed("1")),
  ],
  "a replay before anything was sent whose answer was lost": [
    sent("A", [0, 9], replayed("1")),
    sent("A", [10, 19], lost),
  ],
  "a replay of nothing": [sent("A", [0, 9], replayed("1"))],
  "replays that could only replay each other": [
    sent("A", [0, 9], replayed("1")),
    sent("A", [0, 9], replayed("1")),
  ],
  "an execution after a replay": [
    sent("A", [0, 9], lost),
    sent("A", [10, 19], replayed("1")),
    sent("A", [20, 29], executed("1")),
  ],
  "in progress, with nobody at work": [sent("A", [0, 9], inProgress)],
  "in progress, before anybody else came": [
    sent("A", [0, 9], inProgress),
    sent("A", [10, 19], executed("1")),
  ],
  "in progress after it was completed": [
    sent("A", [0, 9], executed("1")),
    sent("A", [10, 19], inProgress),
  ],
  "two that are both told to wait for the other": [
    sent("A", [0, 9], inProgress),
    sent("A", [1, 8], inProgress),
  ],
  "in progress because of another request": [
    sent("A", [0, 9], inProgress),
    sent("B", [1, 8], executed("1")),
  ],
  "refused as another request, and nobody has sent another": [
    sent("A", [0, 9], executed("1")),
    sent("A", [10, 19], reused),
  ],
  "refused as another request before the other was sent": [
    sent("A", [0, 9], reused),
    sent("B", [10, 19], executed("1")),
  ],
  "refused as another request by its own duplicate": [
    sent("A", [0, 9], executed("1")),
    sent("A", [1, 8], reused),
  ],
  "two requests that refuse each other": [sent("A", [0, 9], reused), sent("B", [1, 8], reused)],
  "both of two requests executed": [
    sent("A", [0, 9], executed("1")),
    sent("B", [1, 8], executed("2")),
  ],
  "another request is answered with the first one's answer": [
    sent("A", [0, 9], executed("1")),
    sent("B", [10, 19], replayed("1")),
  ],
  "refused because of a request, and then that request executes for somebody else": [
    sent("B", [0, 9], lost),
    sent("A", [10, 19], reused),
    sent("A", [20, 29], executed("1")),
  ],
  "the key changes hands between two requests": [
    sent("A", [0, 9], executed("1")),
    sent("B", [1, 5], reused),
    sent("A", [10, 19], reused),
  ],
  "told to wait by an owner that came later": [
    sent("A", [0, 14], inProgress),
    sent("B", [1, 5], reused),
    sent("A", [20, 30], executed("1")),
  ],
};

test.each(Object.entries(broken))("rejected: %s", (_, history) => {
  expect(isAtomic(history)).toBe(false);
});

test("keys are judged each by itself, and a violation is shown with its history", () => {
  const good = sent("A", [0, 9], executed("1"));
  const bad = { ...sent("A", [10, 19], replayed("2")), key: "other" };

  expect(findViolations([good, bad])).toEqual(new Map([["other", [bad]]]));
});

test("a long history with many lost answers is searched to its end", () => {
  const tries = Array.from({ length: 60 }, (_, i) =>
    sent("A", [10 * i, 10 * i + 15], i % 3 === 0 ? inProgress : lost),
  );
  const late = (bytes: string) => sent("A", [700, 701], replayed(bytes));

  expect(isAtomic([sent("A", [0, 9], lost), ...tries, late("1"), late("1")])).toBe(true);
  expect(isAtomic([sent("A", [0, 9], lost), ...tries, late("1"), late("2")])).toBe(false);
});

const moves = fc.array(
  fc.record<Move>({ step: fc.nat(99), whose: fc.nat(9), isTakeover: fc.boolean() }),
  { minLength: 5, maxLength: 60 },
);

test("whatever an atomic key and a lossy network do, it is explained", () => {
  fc.assert(
    fc.property(moves, (script) => {
      expect(isAtomic(historyOf(script))).toBe(true);
    }),
    { numRuns: 2000 },
  );
});

const outcomes = fc.constantFrom(
  executed("1"),
  replayed("1"),
  replayed("2"),
  inProgress,
  reused,
  lost,
);
const anything = fc.array(
  fc
    .tuple(fc.constantFrom("A", "A", "B"), fc.nat(9), fc.nat(9), outcomes)
    .map(([request, at, length, outcome]) => sent(request, [at, at + length], outcome)),
  { maxLength: 7 },
);

test("in which order the operations were written down makes no difference", () => {
  fc.assert(
    fc.property(
      anything.chain((history) =>
        fc.tuple(fc.constant(history), fc.shuffledSubarray(history, { minLength: history.length })),
      ),
      ([history, shuffled]) => {
        expect(isAtomic(shuffled)).toBe(isAtomic(history));
      },
    ),
    { numRuns: 5000 },
  );
});

type Decided = Operation & { outcome: { kind: "decided" } };

/** What no atomic key would do, made out of what one did. `pick` chooses among the answers. */
const corruptions: Record<string, (history: Operation[], pick: number) => Operation[] | undefined> =
  {
    "one of several answers has other bytes": (history, pick) =>
      decidedIn(history).length < 2
        ? undefined
        : withOutcome(history, pickFrom(decidedIn(history), pick), {
            isReplay: decidedIn(history)[pick % decidedIn(history).length]!.outcome.isReplay,
            bytes: "other",
          }),
    "a replay says that it executed": (history, pick) => {
      const replays = decidedIn(history).filter(({ outcome }) => outcome.isReplay);
      const isExecuted = replays.length < decidedIn(history).length;
      if (!isExecuted || replays.length === 0) return undefined;
      const replay = pickFrom(replays, pick);
      return withOutcome(history, replay, { ...replay.outcome, isReplay: false });
    },
    "nobody can have executed what is replayed": (history) => {
      const replays = decidedIn(history).filter(({ outcome }) => outcome.isReplay);
      return replays.length === 0 ? undefined : [...history].filter((o) => !mayExecute(o));
    },
    "a replay comes before the first request": (history, pick) =>
      ifDecided(history, pick, (known) => ({
        ...known,
        invokedAt: -2,
        answeredAt: -1,
        outcome: { ...known.outcome, isReplay: true },
      })),
    "it executes again": (history, pick) =>
      ifDecided(history, pick, (known) => ({
        ...afterwards(known),
        outcome: { ...known.outcome, isReplay: false },
      })),
    "it is in progress after it was completed": (history, pick) =>
      ifDecided(history, pick, (known) => ({ ...afterwards(known), outcome: inProgress })),
    "the same request is refused as another": (history, pick) =>
      ifDecided(history, pick, (known) => ({ ...afterwards(known), outcome: reused })),
    "another request gets the answer": (history, pick) =>
      ifDecided(history, pick, (known) => ({
        ...afterwards(known),
        request: "never sent before",
        outcome: { ...known.outcome, isReplay: true },
      })),
  };

function decidedIn(history: readonly Operation[]): Decided[] {
  return history.filter((operation): operation is Decided => operation.outcome.kind === "decided");
}

function mayExecute({ outcome }: Operation): boolean {
  return outcome.kind === "undecided" || (outcome.kind === "decided" && !outcome.isReplay);
}

function pickFrom<Item>(items: readonly Item[], pick: number): Item {
  return items[pick % items.length]!;
}

function withOutcome(
  history: readonly Operation[],
  of: Operation,
  decided: { isReplay: boolean; bytes: string },
) {
  const outcome = { kind: "decided" as const, ...decided };
  return history.map((operation) => (operation === of ? { ...operation, outcome } : operation));
}

function ifDecided(history: Operation[], pick: number, more: (known: Decided) => Operation) {
  const decided = decidedIn(history);
  return decided.length === 0 ? undefined : [...history, more(pickFrom(decided, pick))];
}

const afterwards = (operation: Decided) => ({ ...operation, invokedAt: 1e6, answeredAt: 1e6 + 1 });

test.each(Object.entries(corruptions))("corrupted, it is rejected: %s", (_, corrupt) => {
  let corrupted = 0;
  fc.assert(
    fc.property(moves, fc.nat(), (script, pick) => {
      const history = corrupt(historyOf(script), pick);
      fc.pre(history !== undefined);
      corrupted += 1;
      expect(isAtomic(history)).toBe(false);
    }),
    { numRuns: 300 },
  );
  expect(corrupted).toBeGreaterThanOrEqual(300);
});
