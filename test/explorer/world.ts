import { createApp } from "../../src/app.ts";
import type { Ports } from "../../src/idempotency/attempt.ts";
import { type Actor, type Answer, answerOf, digest, openActor, type Outcome } from "./actor.ts";
import type { Database } from "./database.ts";
import type { Subject } from "./explore.ts";
import { isHousekeeping, type Message } from "./message.ts";
import { openStripeDouble } from "./provider.ts";
import { type Budget, type Client, PENDING_TTL_MS, SETTINGS, START } from "./scenarios.ts";
import { openWatch } from "./watch.ts";

export type World = ReturnType<typeof openWorld>;

/** All of one schedule: the product in its isolates, what they talk to, and a clock that only events move (event.ts). */
export function openWorld(database: Database, { scenario, mutant, isUnreduced = false }: Subject) {
  database.rewind();
  if (mutant?.schema !== undefined) database.exec(mutant.schema);
  const stripe = openStripeDouble(scenario.charged ?? []);
  const watch = openWatch(database, { pendingTtlMs: PENDING_TTL_MS });
  const world = {
    scenario,
    database,
    provider: stripe,
    watch,
    /** Epoch ms. */
    clock: START,
    /** What may still happen. */
    left: { ...scenario.budget } satisfies Budget,
    /** Nothing has been carried out since the clock moved. */
    isDawn: true,
    isUnreduced,
    /** The clients are sending again, without faults. */
    isEnding: false,
    /** In the order in which they began. */
    actors: [] as Actor[],
    /** Whose code is running: of all actors at most one does, up to its next message. */
    running: null as Actor | null,
    /** Messages of unknown outcome. */
    inFlight: [] as Message[],
    answers: [] as { client: Client; answer: Answer }[],
    /** For each request that is sent again: how long the client waited, as the answers told it to. */
    waits: [] as { waitedMs: number; isAnswered: boolean }[],
    trace: [] as string[],
  };

  const realPorts: Ports = {
    now: () => world.clock,
    newId: () => world.running!.newId(),
    // What is waited for is somebody else's doing, which is an event of its own.
    sleep: async () => {},
  };
  const ports = mutant?.ports?.(realPorts, () => world.running!) ?? realPorts;
  const app = createApp(ports, { hasLab: scenario.isNaive === true });

  /** @param sender Null for a message that comes late. */
  function carryOut(message: Message, sender: Actor | null): Outcome {
    const claimableSince = sender?.claimableSince() ?? null;
    try {
      const result = carriedOut(message);
      const isOfReconciler = sender?.name.startsWith("reconciler") ?? false;
      watch.look(message, { at: world.clock, claimableSince, isOfReconciler });
      return { result };
    } catch (error) {
      return { error: error as Error };
    }
  }

  function carriedOut(message: Message): unknown {
    switch (message.to) {
      case "upload":
        return undefined;
      case "provider":
        return stripe.carryOut(message.call);
      case "d1":
        return database.carryOut(message.statements);
    }
  }

  /** @param parks Which messages wait for an event. The others are carried out where they are sent. */
  async function start(
    name: string,
    work: (bindings: Env, actor: Actor) => Promise<void>,
    parks: (message: Message) => boolean = (message) => !isHousekeeping(message),
  ): Promise<void> {
    const actor = openActor(name, {
      wrap: (sends) => mutant?.wrap?.(sends, { name, database }) ?? sends,
      parks,
      carryOut: (message) => carryOut(message, actor),
    });
    world.running = actor;
    world.actors.push(actor);
    const RATE_LIMITER = { limit: async () => ({ success: true }) };
    const bindings = { ...SETTINGS, DB: actor.d1, SANDBOX: actor.sandbox, RATE_LIMITER };
    await actor.start(world.clock, () => work(bindings as unknown as Env, actor));
  }

  async function send(client: Client, bindings: Env, actor: Actor): Promise<Answer> {
    actor.receive(world.clock);
    const context = { waitUntil: () => {}, passThroughOnException: () => {} };
    const request = requestOf(client, actor);
    const answer = await answerOf(await app.fetch(request, bindings, context as never));
    world.answers.push({ client, answer });
    world.trace.push(`  ${actor.name} is answered ${answer.status} ${answer.error ?? answer.id}`);
    return answer;
  }

  return Object.assign(world, { ports, carryOut, start, send });
}

/** What has become of it all, whichever way it came about. */
export function endOf({ database, provider, answers, waits }: World): string {
  const told = answers.map(({ client, answer }) => `${client.name} ${answer.bytes}`);
  return digest([database.dump(), provider.dump(), told.toSorted(), waits]);
}

/** Two worlds of one state go on in the same ways, and end in the same violations. */
export function stateOf(world: World): string {
  return digest([
    world.database.dump(),
    world.provider.dump(),
    world.clock,
    world.left,
    world.isEnding,
    world.isDawn,
    world.actors.map((actor) => `${actor.name} ${actor.state()}`).toSorted(),
    world.answers.map(({ client, answer }) => `${client.name} ${answer.bytes}`).toSorted(),
    world.inFlight.map((message) => digest(message)).toSorted(),
    world.watch.violations(),
    // What was evicted when its time had come may be done anew.
    world.watch.evictions(),
    world.waits,
  ]);
}

function requestOf(client: Client, actor: Actor): Request {
  const body = JSON.stringify(client.body);
  return new Request(`http://shop.test${client.path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${client.apiKey}`,
      "content-type": "application/json",
      "idempotency-key": client.key,
      "x-request-id": actor.name,
    },
    body: client.isSlow === true ? actor.upload(body) : body,
    // Node asks for it where a body is a stream; the Worker's types do not know it.
    ...({ duplex: "half" } as object),
  });
}
