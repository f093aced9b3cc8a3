import { type Row, tableOf } from "../demo-table.ts";
import { describe } from "./history.ts";
import type { Report, Round } from "./run.ts";

/** Most histories that are shown. */
const MAX_HISTORIES = 3;

export function describeRound({ number, killed, underWay, killedAt, servedAt }: Round): string {
  const downMs = Math.round(servedAt - killedAt);
  return `round ${number}: killed ${killed === "runtime" ? "the runtime" : "the runtime and wrangler"} with ${underWay} requests under way, back after ${downMs} ms`;
}

/** What must hold, whatever was killed when. */
export function claimsOf(report: Report): Row[] {
  const { keys, acknowledged, orders, payments, charges, cutOff, takenOver } = report;
  return [
    {
      claim: "Kills cut requests off, and leases were taken over",
      expected: "some and some",
      seen: `${cutOff > 0 ? "some" : "none"} and ${takenOver > 0 ? "some" : "none"}`,
      note: `${cutOff} requests, ${takenOver} keys`,
    },
    {
      claim: "Every key that was sent has come to an answer",
      expected: `${keys} of ${keys}`,
      seen: `${keys - report.open.length} of ${keys}`,
    },
    {
      claim: "Every order that a 201 named is there, as it was answered",
      expected: `${acknowledged} orders, 0 lost`,
      seen: `${acknowledged} orders, ${report.lost.length} lost`,
    },
    {
      claim: "There is one order for each key with a 201, and no other",
      expected: `${acknowledged} orders, 0 duplicates`,
      seen: `${orders} orders, ${report.duplicates.length} duplicates`,
    },
    {
      claim: "One charge for each payment that succeeded, and no other",
      expected: `${payments} charges, 0 wrong`,
      seen: `${charges} charges, ${report.mischarged.length} wrong`,
    },
    {
      claim: "The history of each key is that of one atomic operation",
      expected: `${keys} keys, 0 violations`,
      seen: `${keys} keys, ${report.violations.size} violations`,
    },
    {
      claim: "The audit of the database and the provider's books",
      expected: `${report.audit.checks} checks, 0 broken`,
      seen: `${report.audit.checks} checks, ${report.audit.broken.length} broken`,
    },
  ];
}

export function describeReport(report: Report): string {
  const { seed, rounds, requests, undecided, cutOff, takenOver, leftOver } = report;
  const everything = rounds.filter(({ killed }) => killed === "everything").length;
  const figures = [
    `seed ${seed}: ${rounds.length} rounds, in ${everything} of them wrangler was killed too`,
    `${requests} requests, ${undecided} of unknown outcome, ${cutOff} of them under way at a kill`,
    `${takenOver} keys taken over, ${leftOver.atTheEnd} payments and refunds unsettled at the end, ${leftOver.afterReconciler} after the reconciler`,
  ];
  return [figures.join("\n"), tableOf(claimsOf(report)), ...offenders(report)].join("\n\n");
}

/** What to look at, where a claim does not hold. */
function offenders(report: Report): string[] {
  const named = (["open", "lost", "duplicates", "mischarged"] as const).flatMap((what) =>
    report[what].length === 0 ? [] : [`${what}: ${report[what].join(", ")}`],
  );
  const histories = [...report.violations].slice(0, MAX_HISTORIES).map(([key, operations]) => {
    const inOrder = operations.toSorted((one, other) => one.invokedAt - other.invokedAt);
    return [`history of ${key}:`, ...inOrder.map(describe)].join("\n");
  });
  return [...named, ...report.audit.broken, ...histories];
}
