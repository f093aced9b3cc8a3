import { assertNoColumnLost, sendBatch } from "./batch.ts";
import { isHeldBy, leaseLeftMs, responseOf } from "./decide.ts";
import * as ledger from "./ledger.ts";
import type { Attempt, Outcome, Ports, Trace } from "./attempt.ts";
import type { ClaimRequest, Reservation } from "./decide.ts";
import type { Claim, Commit, Read, ReadResults } from "./ledger.ts";
import type { Decision } from "./mutation.ts";

// A constraint that said no is explained by fresh reads; one that goes on saying no is a bug.
const MAX_RUNS = 3;
// Transient faults of D1 are over within one or two tries; past that the caller is better placed to wait.
const MAX_SENDS = 3;
const RESEND_PAUSE_MS = 25;
// Waiters look often at first, since most operations end within a few round trips, then once a half second.
const FIRST_POLL_MS = 50;
const SLOWEST_POLL_MS = 500;
const MAX_POLLS = 60;

/** Claims the key, runs the mutation, commits: the only control flow there is. */
export async function execute<Reads extends readonly Read[]>(
  attempt: Attempt<Reads>,
): Promise<Outcome> {
  const claimed = await claimOrWait(attempt);
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
      return { kind: "unavailable" };
  }
}

/** With `Prefer: wait`, claims again until the other attempt has an outcome, or has left the claim to be taken. */
async function claimOrWait<Reads extends readonly Read[]>(
  attempt: Attempt<Reads>,
): Promise<Claim<Reads>> {
  const { db, ports, settings, principal, key, fingerprint, method, path } = attempt;
  // The ids stay the same when a claim is sent again, so that it recognises its own row.
  const ids = { operationId: ports.newId(), owner: ports.newId() };
  const request = (): ClaimRequest => ({
    principal,
    key,
    fingerprint,
    method,
    path,
    ...ids,
    ...settings,
    now: ports.now(),
  });
  const deadline = ports.now() + attempt.waitMs;
  for (let poll = 1; ; poll++) {
    const claimed = await timed(attempt, "claim", () =>
      untilDefinite(attempt, () => ledger.claim(db, request(), attempt.reads())),
    );
    const leftMs = deadline - ports.now();
    if (claimed.kind !== "in_progress" || leftMs <= 0 || poll === MAX_POLLS) return claimed;
    await ports.sleep(Math.min(leftMs, SLOWEST_POLL_MS, FIRST_POLL_MS * poll));
  }
}

/** Runs the mutation and commits what it decided; again on fresh reads when a constraint refuses the writes. */
async function perform<Reads extends readonly Read[]>(
  attempt: Attempt<Reads>,
  reservation: Reservation,
  firstReads: ReadResults<Reads>,
): Promise<Outcome> {
  const { trace } = attempt;
  trace.operation = { id: reservation.operationId, generation: reservation.generation };
  const work = { attempt, reservation, mayHaveActed: false };
  let reads: ReadResults<Reads> | undefined = firstReads;
  while (trace.runs < MAX_RUNS) {
    trace.runs++;
    try {
      reads ??= await readAgain(attempt);
      const decision = await timed(attempt, "run", () => decide(work, reads!));
      const settled = await settle(work, decision);
      if (settled.kind !== "refused") return settled;
      trace.error = settled.error;
      reads = undefined;
    } catch (error) {
      trace.error = error;
      return abandon(work);
    }
  }
  trace.error = new Error("bug: a constraint refused what fresh reads allowed", {
    cause: trace.error,
  });
  return abandon(work);
}

interface Work<Reads extends readonly Read[]> {
  attempt: Attempt<Reads>;
  reservation: Reservation;
  /** From the first checkpoint on an outside call may have happened, and from a lost commit on that commit. */
  mayHaveActed: boolean;
}

async function decide<Reads extends readonly Read[]>(
  work: Work<Reads>,
  reads: ReadResults<Reads>,
): Promise<Decision> {
  const { attempt, reservation } = work;
  const { db, ports, trace } = attempt;
  assertNoColumnLost(reads);
  return attempt.run({
    reads,
    operation: trace.operation!,
    now: ports.now(),
    checkpoint: async (writes) => {
      work.mayHaveActed = true;
      const sent = await untilDefinite(attempt, () =>
        ledger.checkpoint(db, reservation, { writes, now: ports.now() }),
      );
      return sent.kind === "committed" ? { kind: "held" } : { kind: "interrupted", by: sent };
    },
  });
}

async function settle<Reads extends readonly Read[]>(
  work: Work<Reads>,
  decision: Decision,
): Promise<Outcome | { kind: "refused"; error: unknown }> {
  const { attempt, reservation } = work;
  switch (decision.kind) {
    case "outcome_unknown":
      work.mayHaveActed = true;
      return abandon(work);
    case "interrupted":
      return afterFailure(work, decision.by);
    case "decided": {
      const { db, ports } = attempt;
      const { response, writes } = withinLimit(attempt, decision);
      const sent = await timed(attempt, "commit", () =>
        untilDefinite(attempt, () =>
          ledger.commit(db, reservation, { response, writes, now: ports.now() }),
        ),
      );
      return sent.kind === "committed" ? { kind: "executed", response } : afterFailure(work, sent);
    }
  }
}

async function afterFailure<Reads extends readonly Read[]>(
  work: Work<Reads>,
  failure: Exclude<Commit, { kind: "committed" }>,
): Promise<Outcome | { kind: "refused"; error: unknown }> {
  switch (failure.kind) {
    case "fence_lost":
      return canonicalOutcome(work);
    case "constraint":
      return { kind: "refused", error: failure.error };
    case "overloaded":
      work.attempt.trace.error = failure.error;
      await abandon(work);
      return { kind: "unavailable" };
    case "ambiguous":
      // The commit may still land. It can do so only while the row is pending and ours, so the next try is safe.
      work.attempt.trace.error = failure.error;
      work.mayHaveActed = true;
      return abandon(work);
  }
}

/** The fence is lost: whatever the row says now is the truth, and the response in hand is not. */
async function canonicalOutcome<Reads extends readonly Read[]>(
  work: Work<Reads>,
): Promise<Outcome> {
  const { attempt, reservation } = work;
  // Should the look-up fail too, the caller must hear that the outcome is unknown.
  work.mayHaveActed = true;
  const row = await ledger.lookUp(attempt.db, reservation);
  // The fence also closes behind our own commit, when its answer was lost and it was sent again.
  const isOurs = row !== undefined && isHeldBy(row, reservation);
  attempt.trace.isFencedOut = !isOurs;
  if (row === undefined) return { kind: "vanished" };
  if (row.status === "completed") {
    return { kind: isOurs ? "executed" : "replayed", response: responseOf(row) };
  }
  const now = attempt.ports.now();
  const { pendingTtlMs } = attempt.settings;
  return { kind: "in_progress", takeoverAfterMs: leaseLeftMs(row, { now, pendingTtlMs }) };
}

/** Ends the attempt without an outcome, so that the next one need not wait for the TTL. */
async function abandon<Reads extends readonly Read[]>(work: Work<Reads>): Promise<Outcome> {
  const { attempt, reservation, mayHaveActed } = work;
  const end = mayHaveActed ? ledger.giveUpLease : ledger.release;
  try {
    await end(attempt.db, reservation);
  } catch (error) {
    // Not worth failing for: the lease runs out by itself.
    attempt.trace.error ??= error;
  }
  return { kind: mayHaveActed ? "outcome_unknown" : "failed" };
}

function withinLimit<Reads extends readonly Read[]>(
  attempt: Attempt<Reads>,
  decision: Extract<Decision, { kind: "decided" }>,
) {
  const bytes = new TextEncoder().encode(decision.response.body ?? "").byteLength;
  if (bytes <= attempt.settings.responseLimitBytes) return decision;
  return { response: attempt.responseTooLarge(), writes: [] };
}

async function readAgain<Reads extends readonly Read[]>(
  attempt: Attempt<Reads>,
): Promise<ReadResults<Reads>> {
  const statements = attempt.reads();
  if (statements.length === 0) return [] as unknown as ReadResults<Reads>;
  const sent = await sendBatch(attempt.db, statements);
  if (sent.kind !== "done") throw sent.error;
  return sent.results;
}

/** Sends again while the answer is lost. A claim knows its own row and the fence stops a second commit. */
async function untilDefinite<Sent extends { kind: string }>(
  { ports }: { ports: Ports },
  send: () => Promise<Sent>,
): Promise<Sent> {
  for (let tries = 1; ; tries++) {
    const sent = await send();
    if (sent.kind !== "ambiguous" || tries === MAX_SENDS) return sent;
    await ports.sleep(RESEND_PAUSE_MS * tries);
  }
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
