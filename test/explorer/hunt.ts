import type { Exploration } from "./explore.ts";
import type { Job } from "./jobs.ts";

/** What became of the search for a fault that is known to be there. */
export interface Hunt {
  /** What the first schedule that shows it breaks; empty when none does. */
  broken: string[];
  /** Schedules that were run until then. */
  schedules: number;
  /** Whether all there are were run. */
  isExhaustive: boolean;
  trace: string[];
}

/** Explores without faults first, then with one: what is found in the fewest words is found first. */
export async function hunt(
  subject: Pick<Job, "scenario" | "mutant">,
  run: (job: Job) => Promise<Exploration>,
): Promise<Hunt> {
  let before = 0;
  for (let faults = 0; ; faults++) {
    const bounds = { clients: 2, faults };
    const found = await run({ ...subject, bounds, sampling: null });
    const { broken, trace } = found.violations[0] ?? { broken: [], trace: [] };
    const schedules = before + found.schedules;
    if (broken.length > 0 || faults === 1) {
      return { broken, schedules, isExhaustive: found.isExhaustive, trace };
    }
    before = schedules;
  }
}
