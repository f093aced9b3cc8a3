import { drizzle } from "drizzle-orm/d1";

import { configOf } from "../../src/env.ts";
import { evictExpired } from "../../src/idempotency/eviction.ts";
import { providerOf } from "../../src/payments/provider.ts";
import { reconcile } from "../../src/payments/reconcile.ts";
import type { Actor } from "./actor.ts";
import { errorOf, type Fault, faultsOf, isRead, type Message, nameOf } from "./message.ts";
import { type Client, PENDING_TTL_MS, RETENTION_MS } from "./scenarios.ts";
import type { World } from "./world.ts";

/** One thing that can happen next. */
export type Event =
  | { kind: "arrive"; client: Client }
  /** An attempt's message is carried out, or meets a fault, and the attempt goes on to its next. */
  | { kind: "step"; actor: Actor; fault: Fault | null }
  /** A message of unknown outcome is carried out after all. */
  | { kind: "land"; message: Message }
  | { kind: "ttl" | "window" | "sweep" | "reconcile" }
  /** Nothing else goes wrong from here on, and the clients send again. */
  | { kind: "end" }
  /** What is still under way is lost for good. */
  | { kind: "lose" };

/** The reconciler waits for two leases before it takes an interest. */
const PATIENCE_MS = 2 * PENDING_TTL_MS + 1;
/** More than enough: each try either ends the matter or waits out a lease. */
const MAX_TRIES = 4;

/** All that can happen now, in an order that is always the same. None: the schedule is over. */
export function eventsOf(world: World): Event[] {
  const waiting = world.actors.filter((actor) => actor.parked() !== null);
  const steps = waiting.map((actor): Event => ({ kind: "step", actor, fault: null }));
  const landings = world.inFlight.map((message): Event => ({ kind: "land", message }));
  if (world.isEnding) {
    const isOver = steps.length === 0 && landings.length > 0;
    return [...steps, ...landings, ...(isOver ? [{ kind: "lose" } as const] : [])];
  }
  const isQuiet = waiting.length === 0 && world.actors.length > 0;
  return [
    ...steps,
    ...arrivalsOf(world),
    ...passingOf(world),
    ...landings,
    ...(world.left.faults > 0 ? waiting.flatMap(faultsAt) : []),
    ...(isQuiet ? [{ kind: "end" } as const] : []),
  ];
}

/** Until the clock moves it makes no difference when a request arrives, only when its first message is carried out. */
function arrivalsOf({ scenario, actors, isDawn, isUnreduced }: World): Event[] {
  if (!isDawn && !isUnreduced) return [];
  const isThere = (wanted: string) => actors.some(({ name }) => name === wanted);
  return scenario.clients
    .filter(({ name, after }) => !isThere(name) && (after === undefined || isThere(after)))
    .map((client) => ({ kind: "arrive", client }));
}

function passingOf({ scenario, left, watch, clock, actors, inFlight, database }: World): Event[] {
  const rows = watch.rows();
  const isLeased = rows.some(
    ({ status, updatedAt }) => status === "pending" && updatedAt + PENDING_TTL_MS > clock,
  );
  // No claim is under way for a whole window: the least window that may be set is longer than any call to D1.
  const underWay = [...actors.flatMap((actor) => actor.parked() ?? []), ...inFlight];
  const isClaiming = underWay.some((message) => nameOf(message) === "claim");
  const isPossible = {
    ttl: left.ttls > 0 && (isLeased || scenario.isNaive === true),
    window: left.windows > 0 && rows.length > 0 && !isClaiming,
    sweep: left.sweeps > 0 && rows.length > 0,
    reconcile: left.reconciles > 0 && database.unsettled().length > 0,
  };
  const kinds = ["ttl", "window", "sweep", "reconcile"] as const;
  return kinds.filter((kind) => isPossible[kind]).map((kind) => ({ kind }));
}

function faultsAt(actor: Actor): Event[] {
  return faultsOf(actor.parked()!).map((fault) => ({ kind: "step", actor, fault }));
}

export async function take(world: World, event: Event): Promise<void> {
  world.trace.push(describe(event));
  world.isDawn = ["arrive", "ttl", "window", "reconcile"].includes(event.kind);
  switch (event.kind) {
    case "arrive":
      return world.start(event.client.name, async (bindings, actor) => {
        await world.send(event.client, bindings, actor);
      });
    case "step":
      return step(world, event.actor, event.fault);
    case "land":
      world.inFlight.splice(world.inFlight.indexOf(event.message), 1);
      world.carryOut(event.message, null);
      return;
    case "ttl":
      world.left.ttls -= 1;
      world.clock += PENDING_TTL_MS;
      return;
    case "window":
      world.left.windows -= 1;
      world.clock += RETENTION_MS + 1;
      return;
    case "sweep":
      world.left.sweeps -= 1;
      return sweep(world);
    case "reconcile":
      world.left.reconciles -= 1;
      world.clock += PATIENCE_MS;
      return startReconciler(world);
    case "end":
      world.isEnding = true;
      return retry(world);
    case "lose":
      world.inFlight.length = 0;
      return;
  }
}

async function step(world: World, actor: Actor, fault: Fault | null): Promise<void> {
  world.running = actor;
  const message = actor.parked()!;
  if (fault !== null) world.left.faults -= 1;
  switch (fault) {
    case null:
      return actor.resume(world.clock, world.carryOut(message, actor));
    case "crash":
      world.carryOut(message, actor);
      return actor.die();
    case "unknown":
      if (!isRead(message)) world.inFlight.push(message);
      return actor.resume(world.clock, { error: errorOf(fault, message) });
    case "overloaded":
      return actor.resume(world.clock, { error: errorOf(fault, message) });
  }
}

/** One statement, so nothing can come in between. */
function sweep(world: World): Promise<void> {
  const now = world.clock;
  return world.start(
    `sweep ${world.left.sweeps}`,
    async ({ DB }) => {
      await evictExpired(drizzle(DB), { now, pendingTtlMs: PENDING_TTL_MS, limit: 10 });
    },
    () => false,
  );
}

function startReconciler(world: World): Promise<void> {
  return world.start(
    `reconciler ${world.left.reconciles}`,
    async (env) => {
      const settings = configOf(env);
      const provider = providerOf({ env, var: { config: settings } });
      const db = drizzle(env.DB);
      // One that fails is logged by the cron, and the next one begins anew.
      await reconcile({ db, ports: world.ports, settings, provider }).catch(() => {});
    },
    // Its look-out at the beginning is part of the event; its report at the end changes nothing.
    (message) => !isRead(message) || nameOf(message) === "look at the key",
  );
}

/** Sends until there is an answer that sending again cannot change; then once more, to see it replayed. */
function retry(world: World): Promise<void> {
  return world.start("retry", async (bindings, actor) => {
    for (const client of world.scenario.retries) {
      const wait = { waitedMs: 0, isAnswered: false };
      world.waits.push(wait);
      for (let tries = 0; tries < MAX_TRIES && !wait.isAnswered; tries++) {
        const { isRetryable, takeoverAfterMs } = await world.send(client, bindings, actor);
        wait.isAnswered = !isRetryable;
        wait.waitedMs += takeoverAfterMs;
        world.clock += takeoverAfterMs;
      }
      await world.send(client, bindings, actor);
    }
  });
}

/** One line of a trace. */
function describe(event: Event): string {
  switch (event.kind) {
    case "arrive":
      return `${event.client.name} arrives`;
    case "step": {
      const { actor, fault } = event;
      return `${actor.name}: ${nameOf(actor.parked()!)}${fault === null ? "" : `, ${fault}`}`;
    }
    case "land":
      return `what was of unknown outcome is carried out: ${nameOf(event.message)}`;
    case "ttl":
      return "a pending TTL passes";
    case "window":
      return "a retention window passes";
    case "sweep":
      return "the sweep runs";
    case "reconcile":
      return "two TTLs pass, and the reconciler starts";
    case "end":
      return "the clients send again";
    case "lose":
      return "what is still under way is lost";
  }
}
