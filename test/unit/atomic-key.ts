import type { Operation, Outcome } from "../../scripts/chaos/history.ts";

/** What happens next: which kind of step, and to whom. Numbers are taken modulo what is possible. */
export interface Move {
  step: number;
  whose: number;
  /** Whether one who finds the key held takes it over. */
  isTakeover: boolean;
}

interface Attempt {
  request: string;
  client: string;
  invokedAt: number;
  /** Null once it has come to its end. */
  next: "claim" | "commit" | null;
  /** What it would answer. */
  outcome: Outcome | null;
  /** Whether its client still waits. */
  isWaiting: boolean;
}

const LOST: Outcome = { kind: "undecided", why: "lost" };
const BYTES = "the answer";

/** The history of one key that is as it should be, under clients that hang up and owners that die, as a script says. */
export function historyOf(script: readonly Move[]): Operation[] {
  let key: { request: string; holder: Attempt; isCompleted: boolean } | null = null;
  const attempts: Attempt[] = [];
  const history: Operation[] = [];

  function answer(attempt: Attempt, answeredAt: number, outcome: Outcome) {
    const { request, client, invokedAt } = attempt;
    attempt.isWaiting = false;
    history.push({ key: "key", request, client, invokedAt, answeredAt, outcome });
  }

  function claim(attempt: Attempt, isTakeover: boolean): Outcome | null {
    if (key === null) key = { request: attempt.request, holder: attempt, isCompleted: false };
    if (key.request !== attempt.request) return { kind: "reused" };
    if (key.isCompleted) return { kind: "decided", isReplay: true, bytes: BYTES };
    if (isTakeover) key.holder = attempt;
    return key.holder === attempt ? null : { kind: "in_progress" };
  }

  function commit(attempt: Attempt): Outcome {
    const isMine = key!.holder === attempt;
    if (!isMine && !key!.isCompleted) return { kind: "in_progress" };
    key!.isCompleted = true;
    return { kind: "decided", isReplay: !isMine, bytes: BYTES };
  }

  function proceed(attempt: Attempt, isTakeover: boolean) {
    attempt.outcome = attempt.next === "claim" ? claim(attempt, isTakeover) : commit(attempt);
    attempt.next = attempt.outcome === null ? "commit" : null;
  }

  for (const [now, { step, whose, isTakeover }] of script.entries()) {
    const waiting = attempts.filter(({ isWaiting }) => isWaiting);
    const working = attempts.filter(({ next }) => next !== null);
    const done = waiting.filter(({ outcome }) => outcome !== null);
    const of = (some: Attempt[]) => some[whose % some.length];
    if (step < 30) {
      const request = whose < 3 ? "B" : "A";
      const client = `client ${attempts.length}`;
      attempts.push({
        request,
        client,
        invokedAt: now,
        next: "claim",
        outcome: null,
        isWaiting: true,
      });
    } else if (step < 70) {
      const attempt = of(working);
      if (attempt !== undefined) proceed(attempt, isTakeover);
    } else if (step < 90) {
      const attempt = of(done);
      if (attempt !== undefined) answer(attempt, now, attempt.outcome!);
    } else {
      // Hangs up. The attempt may go on, or die with the connection.
      const attempt = of(waiting);
      if (attempt !== undefined) answer(attempt, now, LOST);
      if (attempt !== undefined && isTakeover) attempt.next = null;
    }
  }
  for (const attempt of attempts) {
    if (attempt.isWaiting) answer(attempt, script.length, LOST);
  }
  return history;
}
