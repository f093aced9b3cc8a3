import type { Statement } from "./database.ts";
import type { Call } from "./provider.ts";

/** What leaves the Worker. Between any two of these, anything may happen. */
export type Message =
  | { to: "d1"; statements: readonly Statement[] }
  | { to: "provider"; call: Call }
  /** The rest of a request's body, on its way in. */
  | { to: "upload" };

/**
 * What can go wrong with a message, and with the one who sent it.
 *
 * - `crash`: it is carried out, and its sender is dead by then. One that dies before it sends is one that died after the
 *   message before.
 * - `unknown`: its sender hears of a broken connection. It is carried out at any time from now on, or never: a lost
 *   answer, a lost call and a late write are all among its schedules.
 * - `overloaded`: D1 turns it away.
 */
export type Fault = "crash" | "unknown" | "overloaded";

/** The faults that make a difference to a message. */
export function faultsOf(message: Message): readonly Fault[] {
  switch (message.to) {
    case "upload":
      return ["crash"];
    case "provider":
      return ["crash", "unknown"];
    case "d1":
      return ["crash", "unknown", "overloaded"];
  }
}

/** What the sender hears. */
export function errorOf(fault: "unknown" | "overloaded", { to }: Message): Error {
  if (to === "provider") return new TypeError("Network connection lost.");
  return new Error(
    fault === "unknown"
      ? "D1_ERROR: Network connection lost."
      : "D1_ERROR: D1 DB is overloaded. Too many requests queued.",
  );
}

/** Nothing is left of it when it is late. */
export function isRead(message: Message): boolean {
  return message.to === "d1" && message.statements.every(({ sql }) => /^select/i.test(sql));
}

export function isFenced(message: Message): boolean {
  return (
    message.to === "d1" && message.statements[0]!.sql.startsWith('insert into "idempotency_fence"')
  );
}

type Names = [name: string, sql: RegExp][];

const FENCED: Names = [
  ["commit", /^update "idempotency_keys" set "status" = \?/],
  ["checkpoint", /^update "idempotency_keys" set "updated_at" = \?/],
];
const UNFENCED: Names = [
  ["claim", /^insert into "idempotency_keys"/],
  ["release", /^update "idempotency_keys" set "status"/],
  ["give up the lease", /^update "idempotency_keys" set "updated_at"/],
  ["look at the key", /^select .* from "idempotency_keys"/],
  ["read", /^select/],
];

/** The ledger's word for a message. */
export function nameOf(message: Message): string {
  if (message.to === "upload") return "rest of the body";
  if (message.to === "provider") return `${message.call.method} ${message.call.path}`;
  const { statements } = message;
  // A fenced batch ends with what it does to the ledger, everything else begins with it.
  const telling = isFenced(message) ? statements.at(-1)! : statements[0]!;
  const names = isFenced(message) ? FENCED : UNFENCED;
  return names.find(([, sql]) => sql.test(telling.sql))?.[0] ?? telling.sql.slice(0, 60);
}

/**
 * Messages that are carried out where they are sent. Authentication reads what no schedule changes, the figures are read
 * by nothing here, and the sweep in a request's wake deletes what the sweep event deletes at every point in time.
 */
export function isHousekeeping(message: Message): boolean {
  return (
    message.to === "d1" &&
    message.statements.every(({ sql }) => HOUSEKEEPING.some((part) => sql.includes(part)))
  );
}

const HOUSEKEEPING = ['from "accounts"', '"ledger_figures"', 'delete from "idempotency_keys"'];
