import type { Database } from "./database.ts";
import { violationsOf } from "./guarantees.ts";
import type { Mutant } from "./mutants.ts";
import { numbersFrom } from "../../scripts/random.ts";
import type { Scenario } from "./scenarios.ts";
import { type Event, eventsOf, take } from "./event.ts";
import { endOf, openWorld, stateOf, type World } from "./world.ts";

export interface Subject {
  scenario: Scenario;
  /** Null: the product as it is. */
  mutant: Mutant | null;
  /** Runs what need not be run, too: to see that nothing is missed without it. */
  isUnreduced?: boolean;
}

export interface Exploration {
  /** Schedules that were run: to their end, or to a state from which every way on was explored before. */
  schedules: number;
  /** Distinct states that were passed. */
  states: number;
  /** Schedules run to their end in which a claim was taken over. */
  withTakeover: number;
  /** The distinct ways in which schedules ended: all that was answered, and all that is left. */
  ends: Set<string>;
  /** Whether there is no schedule that was not run. */
  isExhaustive: boolean;
  violations: Violation[];
}

export interface Violation {
  /** Each begins with the number of its guarantee. */
  broken: string[];
  /** Which event was chosen at each turn: by it the schedule is run again. */
  path: number[];
  trace: string[];
}

/**
 * Runs every schedule, depth first, until one breaks a guarantee. Each is run from its beginning, since nothing that
 * runs can be copied, and broken off in a state that was passed before.
 */
export async function explore(database: Database, subject: Subject): Promise<Exploration> {
  const found = nothingFound();
  const passed = new Set<string>();
  /** The turns of the schedule that is being run: which event was chosen, of how many. */
  const turns: { chosen: number; of: number }[] = [];
  do {
    let turn = 0;
    const world = await runSchedule(database, subject, (now, events) => {
      if (turn === turns.length) {
        const state = stateOf(now);
        if (passed.has(state) && subject.isUnreduced !== true) return "stop";
        passed.add(state);
        if (events.length > 0) turns.push({ chosen: 0, of: events.length });
      }
      return turns[turn++]?.chosen ?? "stop";
    });
    await judge(
      world,
      found,
      turns.map(({ chosen }) => chosen),
    );
    while (turns.length > 0 && turns.at(-1)!.chosen + 1 === turns.at(-1)!.of) turns.pop();
    if (turns.length > 0) turns.at(-1)!.chosen += 1;
  } while (turns.length > 0 && found.violations.length === 0);
  return { ...found, states: passed.size, isExhaustive: turns.length === 0 };
}

/** Runs schedules at random, as a seed has it, until one breaks a guarantee: for what is too much to explore. */
export async function sample(
  database: Database,
  subject: Subject,
  { schedules, seed }: { schedules: number; seed: number },
): Promise<Exploration> {
  const found = nothingFound();
  const passed = new Set<string>();
  const random = numbersFrom(seed);
  while (found.schedules < schedules && found.violations.length === 0) {
    const path: number[] = [];
    const world = await runSchedule(database, subject, (now, events) => {
      passed.add(stateOf(now));
      if (events.length === 0) return "stop";
      path.push(Math.floor(random() * events.length));
      return path.at(-1)!;
    });
    await judge(world, found, path);
  }
  return { ...found, states: passed.size, isExhaustive: false };
}

/**
 * Runs one schedule again, and says what happened in it. Where the path ends before it does, it goes on with the first of
 * what can happen. @throws when the path leads nowhere.
 */
export async function replay(
  database: Database,
  subject: Subject,
  path: readonly number[],
): Promise<Pick<Violation, "trace" | "broken">> {
  let turn = 0;
  const world = await runSchedule(database, subject, (_, events) =>
    events.length === 0 && turn >= path.length ? "stop" : (path[turn++] ?? 0),
  );
  return { trace: world.trace, broken: await violationsOf(world) };
}

function nothingFound(): Omit<Exploration, "states" | "isExhaustive"> {
  return { schedules: 0, withTakeover: 0, ends: new Set(), violations: [] };
}

type Choose = (world: World, events: readonly Event[]) => number | "stop";

async function runSchedule(database: Database, subject: Subject, choose: Choose): Promise<World> {
  const world = openWorld(database, subject);
  // Every event uses up something: an attempt, a step of one, or what the budget holds.
  for (;;) {
    const events = eventsOf(world);
    const chosen = choose(world, events);
    if (chosen === "stop") return world;
    const event = events[chosen];
    if (event === undefined) throw new Error(`There is no event ${chosen} at this turn`);
    await take(world, event);
  }
}

/** What became of a schedule that was run to its end. Of one that was broken off, the other that went on there tells. */
async function judge(
  world: World,
  found: ReturnType<typeof nothingFound>,
  path: readonly number[],
): Promise<void> {
  found.schedules += 1;
  if (eventsOf(world).length > 0) return;
  found.ends.add(endOf(world));
  if (world.watch.takeovers() > 0) found.withTakeover += 1;
  const broken = await violationsOf(world);
  if (broken.length === 0) return;
  found.violations.push({ broken, path: [...path], trace: world.trace });
}
