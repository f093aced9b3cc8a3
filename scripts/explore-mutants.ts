import { type Hunt, hunt } from "../test/explorer/hunt.ts";
import { forEachInParallel, inThread } from "../test/explorer/jobs.ts";
import { MUTANTS } from "../test/explorer/mutants.ts";
import { NAIVE_ENDPOINTS } from "../test/explorer/scenarios.ts";
import { outdatedRows } from "./protocol-page.ts";

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

const rows = subjects.map(({ name, scenario, equivalent }) => {
  const { broken, schedules, isExhaustive } = hunts.get(name)!;
  const breaks = [...new Set(broken.map((text) => text.split(".")[0]))].join(", ");
  const verdict = equivalent === undefined ? "NOT CAUGHT" : "equivalent, see below";
  const after = `${schedules.toLocaleString("en")}${isExhaustive ? ", all" : ""}`;
  const isAsExpected =
    equivalent === undefined ? broken.length > 0 : broken.length === 0 && isExhaustive;
  return { name, scenario, breaks: breaks || verdict, after, first: broken[0], isAsExpected };
});
console.table(
  Object.fromEntries(
    rows.map(({ name, scenario, breaks, after, first = "" }) => [
      name,
      { scenario, breaks, after, "for example": first },
    ]),
  ),
);
const onPage = rows.map(({ name, scenario, breaks, after }) => [
  name,
  [name.startsWith("POST ") ? "" : scenario, breaks, after],
]);
const outdated = outdatedRows(Object.fromEntries(onPage));
for (const line of outdated) console.log(line);
process.exitCode = rows.every(({ isAsExpected }) => isAsExpected) && outdated.length === 0 ? 0 : 1;
