import type { Operation } from "./history.ts";

// What one key is, if it is atomic:
//
//     free ──claim──► held by one for a request ──commit──► completed with an answer
//                            └──claim──► held by another, for the same request (a takeover)
//
// A request claims and commits, or only looks: a replay has seen `completed`, 409 has seen the key held by another, 422
// has seen it held or completed for another request. Each step happens at one point between sending and answer. What was
// sent and never decided may claim and commit at any later time, or never; who was told 409, or a replay, may have claimed
// and been taken over. The window is left out: no history may outlast it.

type Held = { request: string; holder: number };

/** How far an explanation has come: the key's state, and the answered operations that it does not explain yet. */
interface Point {
  /** Null while it is free. */
  held: Held | null;
  left: readonly number[];
}

/** Far more than a few dozen requests under one key come to. */
const MAX_POINTS = 1_000_000;

/** The histories, by key, that no order of steps explains. */
export function findViolations(operations: readonly Operation[]): Map<string, Operation[]> {
  const byKey = Map.groupBy(operations, ({ key }) => key);
  return new Map([...byKey].filter(([, ofKey]) => !isAtomic(ofKey)));
}

/**
 * Whether the operations under one key can be put into an order of steps in which every answer is right and none comes
 * before its request. The search is Wing and Gong's, and no point is searched twice, as Lowe showed.
 *
 * @throws when there are too many points to be searched.
 */
export function isAtomic(operations: readonly Operation[]): boolean {
  const answered = operations.flatMap(({ outcome }, i) =>
    outcome.kind === "undecided" ? [] : [i],
  );
  const todo: Point[] = [{ held: null, left: answered }];
  const seen = new Set<string>();
  for (let point = todo.pop(); point !== undefined; point = todo.pop()) {
    if (point.left.length === 0) return true;
    const { held, left } = point;
    const id = `${held?.holder} ${left.join()}`;
    if (seen.has(id)) continue;
    if (seen.add(id).size > MAX_POINTS) throw new Error("the history is too long to be searched");

    // Real time: nothing can happen any more before what has been answered already.
    const now = Math.min(...left.map((i) => operations[i]!.answeredAt));
    for (const [i, operation] of operations.entries()) {
      const isOver = operation.outcome.kind !== "undecided" && !left.includes(i);
      if (isOver || operation.invokedAt > now) continue;
      const isHolder = held?.holder === i;
      if (isHolder && agree(operations, left, i)) return true;
      // Who claims what it then hears to be another's comes to no end, so it need not be kept from it.
      if (held === null || held.request === operation.request) {
        todo.push({ held: { request: operation.request, holder: i }, left });
      }
      if (held !== null && isRightAnswer(operation, { held, isHolder })) {
        todo.push({ held, left: left.filter((other) => other !== i) });
      }
    }
  }
  return false;
}

/** Whether the answer says what the key is while it is held. */
function isRightAnswer(
  { request, outcome }: Operation,
  { held, isHolder }: { held: Held; isHolder: boolean },
): boolean {
  if (outcome.kind === "reused") return held.request !== request;
  return outcome.kind === "in_progress" && held.request === request && !isHolder;
}

/** Once completed, the key stays as it is: whether all that is left, and the one that commits, then have one answer. */
function agree(operations: readonly Operation[], left: readonly number[], by: number): boolean {
  const { request } = operations[by]!;
  const answers = new Set<string>();
  for (const i of left) {
    const { outcome, request: asked } = operations[i]!;
    switch (outcome.kind) {
      case "decided":
        // Whoever commits has executed, and nobody else has.
        if (asked !== request || outcome.isReplay === (i === by)) return false;
        answers.add(outcome.bytes);
        break;
      case "reused":
        if (asked === request) return false;
        break;
      case "in_progress":
      case "undecided":
        return false;
    }
  }
  return answers.size <= 1;
}
