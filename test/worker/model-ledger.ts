import { type Ask, type Change, ModelShop, type Operation, type Outcome } from "./model-shop.ts";

export const PENDING_TTL_MS = 30_000;
export const RETENTION_MS = 86_400_000;

export interface ModelRequest {
  account: string;
  key: string;
  path: string;
  /** Exactly as sent. */
  body: string | undefined;
  ask: Ask;
}

export type Answer =
  | { kind: "stored"; outcome: Outcome; isReplay: boolean }
  | { kind: "refused"; status: number; error: string; takeoverAfterMs?: number };

/** A message to another system: what it does there, if it arrives. */
export interface Message {
  to: "database" | "provider";
  carryOut: () => unknown;
}

/** An attempt goes from message to message, and is told of each what was heard. */
export type Attempt = Generator<Message, Answer, unknown>;
/** `lost`: nobody knows whether it arrived. `shed`: it was turned away. */
export type Unheard = "lost" | "shed";

interface Row {
  request: ModelRequest;
  status: "pending" | "completed" | "released";
  generation: number;
  owner: Owner;
  leaseStart: number;
  expiresAt: number;
  operation: Operation;
  outcome?: Outcome;
}

/** One attempt: who holds a claim. */
interface Owner {
  request: ModelRequest;
}

export const nameOf = ({ account, key }: { account: string; key: string }) => `${account} ${key}`;
const refused = (status: number, error: string): Answer => ({ kind: "refused", status, error });
const REUSED = refused(422, "idempotency_key_reused");

/** The ledger: one row for each key, and what an attempt may do while it holds the claim. */
export class ModelLedger {
  readonly rows = new Map<string, Row>();
  readonly shop = new ModelShop();
  /** How often the rules refused what had been decided before. */
  overruled = 0;
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Claim; write the intent down and ask the provider, if there is one to ask; commit. */
  *attempt(request: ModelRequest): Attempt {
    // Refused before the claim: the key stays free.
    if (request.ask.kind === "nonsense") return refused(400, "invalid_request");
    const owner: Owner = { request };
    const claimed = yield* tell("database", () => this.#claim(owner));
    if (isUnheard(claimed)) {
      this.#endLease(owner);
      return refused(503, "service_unavailable");
    }
    if (!("generation" in claimed)) return claimed;

    // What an earlier attempt did is not known to this one.
    let canHaveActed = claimed.generation > 1;
    for (;;) {
      const now = this.#now();
      let decision = this.shop.decide(request.ask, claimed.operation, now);
      if ("intent" in decision) {
        const { intent, ask, on } = decision;
        canHaveActed = true;
        const noted = yield* tell("database", () =>
          this.#write(owner, intent, { leaseStart: now }),
        );
        if (noted === "forbidden") continue;
        if (noted !== "done") return this.#giveUp(owner, noted, canHaveActed);
        const said = ask === "too old" ? "unknown" : yield* tell("provider", ask);
        if (said !== "yes" && said !== "no") return this.#giveUp(owner, "lost", canHaveActed);
        decision = on[said];
      }
      const { outcome, ...change } = decision;
      const completed = { status: "completed", outcome } as const;
      const done = yield* tell("database", () => this.#write(owner, change, completed));
      if (done === "done") return { kind: "stored", outcome, isReplay: false };
      if (done !== "forbidden") return this.#giveUp(owner, done, canHaveActed);
    }
  }

  #claim(owner: Owner): Row | Answer {
    const { request } = owner;
    const now = this.#now();
    const lease = { owner, leaseStart: now, expiresAt: now + RETENTION_MS };
    const row = this.rows.get(nameOf(request));
    if (row === undefined) {
      const operation = { id: null, account: request.account, key: request.key };
      const fresh: Row = { request, operation, status: "pending", generation: 1, ...lease };
      this.rows.set(nameOf(request), fresh);
      return fresh;
    }
    // It was sent twice.
    if (row === this.#held(owner)) return row;
    const standing = this.#standing(row, owner);
    if (standing === REUSED || row.status === "completed" || this.leaseLeftMs(row) > 0) {
      return standing;
    }
    return Object.assign(row, { status: "pending", generation: row.generation + 1, ...lease });
  }

  /** What a row says to one who does not hold its claim. Another request hears of nothing else. */
  #standing(row: Row, owner: Owner): Answer {
    const { path, body } = owner.request;
    if (row.request.path !== path || row.request.body !== body) return REUSED;
    if (row.status === "completed") {
      return { kind: "stored", outcome: row.outcome!, isReplay: row.owner !== owner };
    }
    const takeoverAfterMs = this.leaseLeftMs(row);
    return { kind: "refused", status: 409, error: "idempotency_key_in_progress", takeoverAfterMs };
  }

  /** The fence: the change and what the row is then, both or neither, and only by the owner. */
  #write(owner: Owner, { isAllowed, effect }: Change, becomes: Partial<Row>) {
    const row = this.#held(owner);
    if (row === undefined) return "fenced out";
    if (!isAllowed()) {
      this.overruled += 1;
      return "forbidden";
    }
    effect();
    Object.assign(row, becomes);
    return "done";
  }

  #held(owner: Owner): Row | undefined {
    const row = this.rows.get(nameOf(owner.request));
    return row?.owner === owner && row.status === "pending" ? row : undefined;
  }

  #giveUp(owner: Owner, why: Unheard | "fenced out", canHaveActed: boolean): Answer {
    if (why === "fenced out") {
      const row = this.rows.get(nameOf(owner.request));
      return row ? this.#standing(row, owner) : refused(409, "idempotency_key_retry");
    }
    const row = this.#held(owner);
    // Only where nothing can have happened is the claim given back.
    if (why === "lost" || canHaveActed) this.#endLease(owner);
    else if (row !== undefined) row.status = "released";
    return refused(503, why === "lost" ? "outcome_unknown" : "service_unavailable");
  }

  /** The next try need not wait. */
  #endLease(owner: Owner): void {
    const row = this.#held(owner);
    if (row !== undefined) row.leaseStart = -Infinity;
  }

  leaseLeftMs(row: Row): number {
    if (row.status !== "pending") return 0;
    return Math.max(0, row.leaseStart + PENDING_TTL_MS - this.#now());
  }

  /** Past its window, and nobody is executing under it: a sweep may take it, and the cron's must. */
  isSweepable(row: Row): boolean {
    return row.expiresAt < this.#now() && this.leaseLeftMs(row) === 0;
  }

  /** Takes over what nobody has finished for two leases, as its client's retry would. */
  reconcile(): Record<"settled" | "unsettled", { operation: Operation }[]> {
    const { payments, refunds } = this.shop;
    const now = this.#now();
    const due = [...payments, ...refunds].filter(
      ({ status, updatedAt }) => status === "processing" && now - updatedAt > 2 * PENDING_TTL_MS,
    );
    for (const money of due) {
      const row = this.rows.get(nameOf(money.operation));
      if (row?.operation === money.operation) answerTo(this.attempt(row.request));
      // Its key is gone, so it is older than the window, and the provider is not asked any more.
      else money.updatedAt = now;
    }
    const { settled = [], unsettled = [] } = Object.groupBy(due, ({ status }) =>
      status === "processing" ? "unsettled" : "settled",
    );
    return { settled, unsettled };
  }
}

/** Sends a message; the result is what it did, or what kept it from being heard of. */
function* tell<Result>(
  to: Message["to"],
  carryOut: () => Result,
): Generator<Message, Result | Unheard, unknown> {
  return (yield { to, carryOut }) as Result | Unheard;
}

function isUnheard(heard: unknown): heard is Unheard {
  return heard === "lost" || heard === "shed";
}

/** Where nothing goes wrong. */
function answerTo(attempt: Attempt): Answer {
  let step = attempt.next();
  while (!step.done) step = attempt.next(step.value.carryOut());
  return step.value;
}
