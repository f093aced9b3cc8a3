import { expect } from "vitest";

import {
  type Answer as Predicted,
  type Attempt,
  type Message,
  ModelLedger,
  type ModelRequest,
  nameOf,
} from "./model-ledger.ts";
import { type Service, CLAIM_MS, type Trouble } from "./model-service.ts";
import type { Operation } from "./model-shop.ts";
import { type Answer, type Json, TestClock } from "./shop.ts";

/** How often each thing has happened, over all sequences: what never happens is not tested. */
export const seen = new Map<string, number>();

function note(what: string): void {
  seen.set(what, (seen.get(what) ?? 0) + 1);
}

/** The model, and what is under way. */
export class World {
  readonly ledger: ModelLedger;
  /** Oldest first. */
  readonly requests: ModelRequest[] = [];
  readonly stalled: { attempt: Attempt; message: Message; sent: Sent }[] = [];
  readonly clock = new TestClock();

  constructor(startsAt: number) {
    this.clock.advance(startsAt - this.clock.now());
    this.ledger = new ModelLedger(this.clock.now);
  }
}

export function letTimePass(world: World, service: Service, ms: number): void {
  world.clock.advance(ms);
  service.clock.advance(ms);
}

const NO_TROUBLE: Trouble = { at: 0, kind: "none", isSlow: false };

type Sent = ReturnType<Service["post"]>;

/** Sends a request to both. */
export async function exchange(
  world: World,
  service: Service,
  request: ModelRequest,
  trouble: Trouble = NO_TROUBLE,
): Promise<void> {
  world.requests.push(request);
  const generation = () => world.ledger.rows.get(nameOf(request))?.generation ?? 1;
  const before = generation();
  const attempt = world.ledger.attempt(request);
  const end = play(world, attempt, attempt.next(), trouble);
  if (generation() > before) note("a claim is taken over");

  const sent = service.post(request, trouble);
  const answer = await Promise.race([sent.answer, sent.stalled]);
  await compareRows(world, service);
  expect(answer === "stalled").toBe(end.kind === "stalls");
  if (end.kind === "stalls") {
    note("an owner stalls");
    world.stalled.push({ attempt, message: end.at, sent });
  } else compareAnswers(end.answer, answer);
}

/** Lets a stalled owner go on, however late. */
export async function wake(world: World, service: Service, index: number): Promise<void> {
  const [{ attempt, message, sent }] = world.stalled.splice(index, 1) as [World["stalled"][0]];
  const before = world.ledger.overruled;
  const end = play(world, attempt, attempt.next(message.carryOut()), NO_TROUBLE);
  if (world.ledger.overruled > before) note("a stalled owner is overruled");
  if (end.kind === "stalls") throw new Error("nothing keeps it now");
  sent.goOn();
  const answer = await sent.answer;
  await compareRows(world, service);
  compareAnswers(end.answer, answer);
  const isFencedOut = end.answer.kind === "refused" || end.answer.isReplay;
  note(isFencedOut ? "a stalled owner does not get through" : "a stalled owner gets through");
}

export async function sweepBoth(world: World, service: Service): Promise<void> {
  const { ledger } = world;
  const overdue = [...ledger.rows].filter(([, row]) => ledger.isSweepable(row));
  for (const [name] of overdue) ledger.rows.delete(name);
  expect(await service.sweep()).toBe(overdue.length);
  if (overdue.length > 0) note("a sweep");
  await compareRows(world, service);
}

export async function reconcileBoth(world: World, service: Service): Promise<void> {
  const { settled, unsettled } = world.ledger.reconcile();
  const report = await service.reconcile();
  const predicted = (things: { operation: Operation }[]) =>
    new Set(things.map(({ operation }) => operation.id));
  const actual = (ids: string[]) => new Set(ids.map((id) => id.slice(id.indexOf("_") + 1)));
  expect(actual(report.settled)).toEqual(predicted(settled));
  expect(actual(report.unsettled)).toEqual(predicted(unsettled));
  if (settled.length > 0) note("the reconciler settles");
  if (unsettled.length > 0) note("the reconciler leaves unsettled");
  await compareRows(world, service);
}

type End = { kind: "answers"; answer: Predicted } | { kind: "stalls"; at: Message };

/** Carries out the messages of an attempt of the model, one of which may be in trouble, until it answers or stalls. */
function play(
  { clock }: World,
  attempt: Attempt,
  first: IteratorResult<Message, Predicted>,
  { at, kind, isSlow }: Trouble,
): End {
  let step = first;
  for (let count = 0; !step.done; count++) {
    const isInTrouble = count === at && kind !== "none";
    if (isInTrouble && kind === "stalls") return { kind, at: step.value };
    const heard = isInTrouble ? heardOf(step.value, kind) : step.value.carryOut();
    if (isSlow && count === 0 && !isInTrouble) clock.advance(CLAIM_MS);
    step = attempt.next(heard);
  }
  return { kind: "answers", answer: step.value };
}

function heardOf({ to, carryOut }: Message, kind: Trouble["kind"]): unknown {
  if (kind === "lost" || kind === "shed") return kind;
  carryOut();
  // Only what goes to the database is sent again within one request.
  return kind === "twice" && to === "database" ? carryOut() : "lost";
}

function compareAnswers(predicted: Predicted, answer: Answer | "stalled"): void {
  if (answer === "stalled") throw new Error("stalled where it should have answered");
  const { status, headers, body, json } = answer;
  const { error, takeover_after_ms: takeoverAfterMs } = json;
  const isReplay = headers.get("idempotent-replayed") === "true";
  const actual = { status, error, takeoverAfterMs, isReplay };
  if (predicted.kind === "refused") {
    note(`${status} ${String(error)}`);
    const { kind: _, ...refusal } = predicted;
    expect(actual).toEqual({ takeoverAfterMs: undefined, isReplay: false, ...refusal });
    return;
  }
  const { outcome } = predicted;
  const isDone = outcome.error === undefined;
  note(`${status} ${outcome.error ?? "done"}${isReplay ? ", replayed" : ""}`);
  if (!isDone && isReplay) note("a refusal, replayed");
  if (isDone && !isReplay && String(json["id"]).startsWith("ref_")) note("a refund");
  expect(actual).toEqual({
    status: outcome.status,
    error: outcome.error,
    takeoverAfterMs: undefined,
    isReplay: predicted.isReplay,
  });
  expect(json).toMatchObject(outcome.says());
  const bytes = [status, headers.get("content-type"), headers.get("location"), body].join("\n");
  outcome.bytes ??= bytes;
  expect(bytes).toBe(outcome.bytes);
}

/** Every row is as the model has it, but for what a sweep may have taken in passing. */
async function compareRows({ ledger }: World, service: Service): Promise<void> {
  const actual = await service.rows();
  for (const [name, row] of ledger.rows) {
    const key = actual.keys[name];
    if (key !== undefined) row.operation.id ??= String(key["operation"]);
    else if (ledger.isSweepable(row)) {
      ledger.rows.delete(name);
      note("a sweep");
    }
  }
  expect(actual).toEqual({ keys: keysOf(ledger), things: thingsOf(ledger) });
}

function keysOf({ rows }: ModelLedger): Record<string, Json> {
  return Object.fromEntries(
    [...rows].map(([name, { operation, status, generation, expiresAt }]) => [
      name,
      { operation: operation.id, status, generation, expires_at: expiresAt },
    ]),
  );
}

function thingsOf({ shop }: ModelLedger): Record<string, Json> {
  const named = <Thing extends { operation: Operation }>(
    prefix: string,
    things: Thing[],
    show: (thing: Thing) => Json,
  ) => things.map((thing) => [`${prefix}_${thing.operation.id}`, show(thing)] as const);
  return Object.fromEntries([
    ...named("prod", shop.products, ({ stock }) => ({ stock })),
    ...named("ord", shop.orders, ({ status }) => ({ status })),
    ...named("pay", shop.payments, ({ status, refunded }) => ({
      status,
      refunded_amount: refunded,
    })),
    ...named("ref", shop.refunds, ({ status, amount }) => ({ status, amount })),
  ]);
}
