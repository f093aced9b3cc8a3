import { type Hunt, hunt } from "../test/explorer/hunt.ts";
import { forEachInParallel, inThread } from "../test/explorer/jobs.ts";
import { MUTANTS } from "../test/explorer/mutants.ts";
import { NAIVE_ENDPOINTS } from "../test/explorer/scenarios.ts";

// Takes one safeguard out at a time, then all of them (src/lab), and exits with 1 unless the exploration finds what each
// lets through. See docs/protocol.md for what the numbers of the guarantees mean.
const subjects = [
  ...MUTANTS.map(({ name, scenario, equivalent }) => ({
    name,
    scenario,
    mutant: name,
    equivalent,
  })),
  ...NAIVE_ENDPOINTS.map((name) => ({
    name: `POST /lab/orders/${name}`,
    scenario: name,
    mutant: null,
    equivalent: undefined,
  })),
];

const hunts = new Map<string, Hunt>();
await forEachInParallel(subjects, async (subject) => {
  hunts.set(subject.name, await hunt(subject, inThread));
  console.log(subject.name);
});

console.table(
  Object.fromEntries(
    subjects.map(({ name, scenario, equivalent }) => {
      const { broken, schedules, isExhaustive } = hunts.get(name)!;
      const guarantees = [...new Set(broken.map((text) => text.split(".")[0]))].join(", ");
      const verdict = equivalent === undefined ? "NOT CAUGHT" : `equivalent: ${equivalent}`;
      const found = broken.length > 0 ? `${guarantees} (${broken[0]!.slice(3)})` : verdict;
      return [name, { scenario, breaks: found, after: schedules, all: isExhaustive }];
    }),
  ),
);
const isAsExpected = subjects.every(({ name, equivalent }) => {
  const { broken, isExhaustive } = hunts.get(name)!;
  return equivalent === undefined ? broken.length > 0 : broken.length === 0 && isExhaustive;
});
process.exitCode = isAsExpected ? 0 : 1;
