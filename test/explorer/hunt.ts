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
}

/** Explores without faults first, then with one, so that what is found is short. */
export async function hunt(
  subject: Pick<Job, "scenario" | "mutant">,
  run: (job: Job) => Promise<Exploration>,
): Promise<Hunt> {
  const huntWith = (faults: number) =>
    run({ ...subject, bounds: { clients: 2, faults }, sampling: null });
  const first = await huntWith(0);
  const found = first.violations.length > 0 ? first : await huntWith(1);
  const before = found === first ? 0 : first.schedules;
  return {
    broken: found.violations[0]?.broken ?? [],
    schedules: before + found.schedules,
    isExhaustive: found.isExhaustive,
  };
}
