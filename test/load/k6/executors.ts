import { setTimeout as sleep } from "node:timers/promises";

import { add, type Metrics } from "./metrics.ts";
import type { Scenario } from "./options.ts";
import type { Vu } from "./vu.ts";

export interface Load {
  name: string;
  vus: Vu[];
  data: unknown;
  metrics: Metrics;
  /** Once aborted, no iteration begins any more. */
  stopped: AbortSignal;
  /** Told of what an iteration throws: as in k6, the others go on. */
  onThrow: (error: unknown) => void;
}

/** Runs one scenario to its end. Iterations that are under way then are waited for; k6 breaks them off after 30 s. */
export async function runScenario(scenario: Scenario, load: Load): Promise<void> {
  switch (scenario.executor) {
    case "shared-iterations":
      return share(scenario, load);
    case "constant-vus":
      return loop(scenario, load);
    case "constant-arrival-rate":
      return arrive(scenario, load);
  }
}

type Of<Executor> = Extract<Scenario, { executor: Executor }>;

async function share(scenario: Of<"shared-iterations">, load: Load): Promise<void> {
  const runner = runnerOf(scenario, load);
  const deadline = performance.now() + scenario.maxDurationMs;
  const isOver = () =>
    runner.begun() === scenario.iterations || load.stopped.aborted || performance.now() > deadline;
  await Promise.all(load.vus.map(async (vu) => runner.repeat(vu, isOver)));
}

async function loop(scenario: Of<"constant-vus">, load: Load): Promise<void> {
  const runner = runnerOf(scenario, load);
  const deadline = performance.now() + scenario.durationMs;
  const isOver = () => load.stopped.aborted || performance.now() > deadline;
  await Promise.all(load.vus.map(async (vu) => runner.repeat(vu, isOver)));
}

/** An iteration begins when its time has come, whether or not the one before has ended; without a free VU it is dropped. */
async function arrive(scenario: Of<"constant-arrival-rate">, load: Load): Promise<void> {
  const runner = runnerOf(scenario, load);
  const idle = [...load.vus];
  const underWay: Promise<void>[] = [];
  const startedAt = performance.now();
  for (let arrival = 0; arrival * scenario.periodMs < scenario.durationMs; arrival++) {
    const dueInMs = startedAt + arrival * scenario.periodMs - performance.now();
    if (dueInMs > 0) await sleep(dueInMs);
    if (load.stopped.aborted) break;
    const vu = idle.pop();
    if (vu === undefined) add(load.metrics, "dropped_iterations", { value: 1, tags: {} });
    else underWay.push(runner.run(vu).then(() => void idle.push(vu)));
  }
  await Promise.all(underWay);
}

function runnerOf({ exec, executor }: Scenario, { name, data, metrics, onThrow }: Load) {
  let begun = 0;
  const ofVu = new Map<Vu, number>();
  const given = new Map<Vu, unknown>();

  async function run(vu: Vu): Promise<void> {
    const turn = ofVu.get(vu) ?? 0;
    ofVu.set(vu, turn + 1);
    if (!given.has(vu)) given.set(vu, vu.give(data));
    vu.setIteration({ scenario: name, executor, inTest: begun++, ofVu: turn });
    const startedAt = performance.now();
    try {
      await (vu.exports[exec] as (data: unknown) => unknown)(given.get(vu));
    } catch (error) {
      onThrow(error);
    }
    const tags = { scenario: name };
    add(metrics, "iterations", { value: 1, tags });
    add(metrics, "iteration_duration", { value: performance.now() - startedAt, tags });
  }

  return {
    run,
    begun: () => begun,
    async repeat(vu: Vu, isOver: () => boolean): Promise<void> {
      while (!isOver()) await run(vu);
    },
  };
}
