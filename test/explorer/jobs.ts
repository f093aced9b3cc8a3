import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";

import { openDatabase } from "./database.ts";
import { type Exploration, explore, sample } from "./explore.ts";
import { mutantOf } from "./mutants.ts";
import { type Bounds, scenarioOf } from "./scenarios.ts";

/** One exploration, in words that can be handed to another thread. */
export interface Job {
  scenario: string;
  /** Null: the product as it is. */
  mutant: string | null;
  bounds: Bounds;
  /** Null: every schedule. */
  sampling: { schedules: number; seed: number } | null;
}

export async function run({ scenario: name, mutant, bounds, sampling }: Job): Promise<Exploration> {
  const scenario = scenarioOf(name, bounds);
  const subject = { scenario, mutant: mutantOf(mutant) };
  const database = openDatabase(scenario.seed);
  return sampling === null ? explore(database, subject) : sample(database, subject, sampling);
}

export function inThread(job: Job): Promise<Exploration> {
  const worker = new Worker(join(import.meta.dirname, "thread.ts"), { workerData: job });
  return new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
  });
}

/** As many at a time as the machine has cores, in the order given. */
export async function forEachInParallel<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const waiting = [...items];
  const lanes = Array.from({ length: availableParallelism() }, async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await work(item);
  });
  await Promise.all(lanes);
}
