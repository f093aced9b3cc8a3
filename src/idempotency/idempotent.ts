import { assertNoColumnLost, type D1Failure, sendBatch, untilDefinite } from "./batch.ts";
import { isHeldBy, leaseLeftMs, responseOf } from "./decide.ts";
import * as ledger from "./ledger.ts";
import type { Attempt, Outcome, Ports, ReadRows, Trace } from "./attempt.ts";
import type { Reservation } from "./decide.ts";
import type { Commit } from "./ledger.ts";
import type { Decision, Operation } from "./mutation.ts";

/** A constraint that said no is explained by fresh reads; one that goes on saying no is a bug. */
export const MAX_RUNS = 3;
// Waiters look often at first, since most operations end within a few round trips, then once a half second. Ten seconds
// of that are some twenty-five looks; the bound is there for a clock that stands still.
const FIRST_POLL_MS = 50;
const SLOWEST_POLL_MS = 500;
const MAX_POLLS = 60;

/**
 * Claims the key, runs the mutation, commits: the only control flow there is. With `Prefer: wait` it begins again until
 * the other attempt has an outcome, or has left the claim to be taken.
 */
export async function execute(attempt: Attempt): Promise<Outcome> {
  const { ports, waitMs } = attempt;
  // The ids stay the same when a claim is sent again, so that it recognises its own row.
  const ids = { operationId: ports.newId(), owner: ports.newId() };
  const deadline = ports.now() + waitMs;
  for (let poll = 1; ; poll++) {
    const outcome = await executeOnce(attempt, ids);
    const leftMs = deadline - ports.now();
    if (outcome.kind !== "in_progress" || leftMs <= 0 || poll === MAX_POLLS) return outcome;
    await ports.sleep(Math.min(leftMs, SLOWEST_POLL_MS, FIRST_POLL_MS * poll));
  }
}

async function executeOnce(
  attempt: Attempt,
  ids: { operationId: string; owner: string },
): Promise<Outcome> {
  const { db, ports, settings, principal, key, fingerprint, method, path } = attempt;
  const request = { principal, key, fingerprint, method, path, ...ids, ...settings };
  const claimed = await timed(attempt, "claim", () =>
    untilDefinite(ports, () => ledger.claim(db, { ...request, now: ports.now() }, attempt.reads())),
  );
  switch (claimed.kind) {
    case "won":
      return perform(attempt, claimed.reservation, claimed.reads);
    case "completed":
      return { kind: "replayed", response: claimed.response };
    case "in_progress":
    case "reused":
    case "vanished":
      return claimed;
    case "overloaded":
    case "ambiguous":
      attempt.trace.error = claimed.error;
      // It may have landed all the same, and nobody would be executing under it.
      await letGo(attempt, () => ledger.disown(db, request));
      return { kind: "unavailable" };
  }
}

/** Runs the mutation and commits what it decided; again on fresh reads when a constraint refuses the writes. */
async function perform(
  attempt: Attempt,
  reservation: Reservation,
  firstReads: ReadRows,
): Promise<Outcome> {
  const { trace } = attempt;
  const { operationId, generation } = reservation;
  const work = {
    attempt,
    reservation,
    operation: { id: operationId, generation },
    // What an earlier attempt did before it was taken over is not known here.
    hasCheckpointed: generation > 1,
  };
  trace.operation = work.operation;
  try {
    let reads = firstReads;
    for (let run = 1; run <= MAX_RUNS; run++) {
      trace.runs = run;
      const settled = await settle(work, await runMutation(work, reads));
      if (settled.kind !== "constraint") return settled;
      trace.error = settled.error;
      const again = await readAgain(attempt);
      if (again.kind !== "done") return await afterFailure(work, again);
      reads = again.results;
    }
    throw new Error("bug: a constraint refused what fresh reads allowed", { cause: trace.error });
  } catch (error) {
    trace.error = error;
    return work.hasCheckpointed ? leaveUnknown(work) : fail(work);
  }
}

interface Work {
  attempt: Attempt;
  reservation: Reservation;
  operation: Operation;
  /** From the first checkpoint of any attempt on, an outside call may have happened: the claim is not released then. */
  hasCheckpointed: boolean;
}

async function runMutation(work: Work, reads: ReadRows): Promise<Decision> {
  const { attempt, reservation, operation } = work;
  const { db, ports } = attempt;
  assertNoColumnLost(reads);
  return timed(attempt, "run", async () =>
    attempt.run({
      reads,
      operation,
      now: ports.now(),
      checkpoint: async (writes) => {
        work.hasCheckpointed = true;
        const sent = await untilDefinite(ports, () =>
          ledger.checkpoint(db, reservation, { writes, now: ports.now() }),
        );
        return sent.kind === "committed" ? { kind: "held" } : { kind: "interrupted", by: sent };
      },
    }),
  );
}

type Constraint = Extract<Commit, { kind: "constraint" }>;

async function settle(work: Work, decision: Decision): Promise<Outcome | Constraint> {
  const { attempt, reservation } = work;
  switch (decision.kind) {
    case "outcome_unknown":
      attempt.trace.error = decision.error;
      return leaveUnknown(work);
    case "interrupted":
      return decision.by.kind === "constraint" ? decision.by : afterFailure(work, decision.by);
    case "decided": {
      const { db, ports } = attempt;
      const { response, writes } = withinLimit(attempt, decision);
      const sent = await timed(attempt, "commit", () =>
        untilDefinite(ports, () =>
          ledger.commit(db, reservation, { response, writes, now: ports.now() }),
        ),
      );
      if (sent.kind === "committed") return { kind: "executed", response };
      return sent.kind === "constraint" ? sent : afterFailure(work, sent);
    }
  }
}

async function afterFailure(
  work: Work,
  failure: Exclude<Commit | D1Failure, { kind: "committed" }>,
): Promise<Outcome> {
  switch (failure.kind) {
    case "fence_lost":
      return canonicalOutcome(work);
    case "constraint":
      throw new Error(`bug: a read broke the constraint ${failure.name}`);
    case "overloaded":
      work.attempt.trace.error = failure.error;
      await (work.hasCheckpointed ? leaveUnknown(work) : fail(work));
      return { kind: "unavailable" };
    case "ambiguous":
      // The commit may still land. It can do so only while the row is pending and ours, so the next try is safe.
      work.attempt.trace.error = failure.error;
      return leaveUnknown(work);
  }
}

/** The fence is lost: whatever the row says now is the truth, and the response in hand is not. */
async function canonicalOutcome(work: Work): Promise<Outcome> {
  const { attempt, reservation } = work;
  const seen = await untilDefinite(attempt.ports, () => ledger.lookAgain(attempt.db, reservation));
  if (seen.kind !== "done") {
    attempt.trace.error = seen.error;
    return leaveUnknown(work);
  }
  const row = seen.results[0][0];
  // The fence also closes behind our own commit, when its answer was lost and it was sent again.
  const isOurs = row !== undefined && isHeldBy(row, reservation);
  if (!isOurs) attempt.trace.timesFencedOut += 1;
  if (row === undefined) return { kind: "vanished" };
  // The row was evicted and the key used anew: its answer is nobody else's.
  if (row.fingerprint !== attempt.fingerprint) return { kind: "reused" };
  if (row.status === "completed") {
    return { kind: isOurs ? "executed" : "replayed", response: responseOf(row) };
  }
  const now = attempt.ports.now();
  const { pendingTtlMs } = attempt.settings;
  return { kind: "in_progress", takeoverAfterMs: leaseLeftMs(row, { now, pendingTtlMs }) };
}

/** Nothing can have happened. */
async function fail({ attempt, reservation }: Work): Promise<Outcome> {
  await letGo(attempt, () => ledger.release(attempt.db, reservation));
  return { kind: "failed" };
}

/** Something may have happened: the row stays pending, for the next try to find out. */
async function leaveUnknown({ attempt, reservation }: Work): Promise<Outcome> {
  await letGo(attempt, () => ledger.giveUpLease(attempt.db, reservation));
  return { kind: "outcome_unknown" };
}

/** Ends the attempt early, so that the next one need not wait for the TTL. */
async function letGo({ trace }: Attempt, end: () => Promise<void>): Promise<void> {
  try {
    await end();
  } catch (error) {
    // Not worth failing for: the lease runs out by itself.
    trace.error ??= error;
  }
}

function withinLimit(attempt: Attempt, decision: Extract<Decision, { kind: "decided" }>) {
  const bytes = new TextEncoder().encode(decision.response.body ?? "").byteLength;
  if (bytes <= attempt.settings.responseLimitBytes) return decision;
  return { response: attempt.responseTooLarge(), writes: [] };
}

async function readAgain(
  attempt: Attempt,
): Promise<{ kind: "done"; results: ReadRows } | D1Failure> {
  const statements = attempt.reads();
  if (statements.length === 0) return { kind: "done", results: [] };
  return untilDefinite(attempt.ports, () => sendBatch(attempt.db, statements));
}

async function timed<Result>(
  { ports, trace }: { ports: Ports; trace: Trace },
  phase: keyof Trace["phases"],
  work: () => Promise<Result>,
): Promise<Result> {
  const start = ports.now();
  try {
    return await work();
  } finally {
    trace.phases[phase] = (trace.phases[phase] ?? 0) + ports.now() - start;
  }
}
