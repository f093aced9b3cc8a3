import type { Ports } from "../../src/idempotency/attempt.ts";
import type { Actor, Send } from "./actor.ts";
import type { Database, Result, Statement } from "./database.ts";
import { type Message, nameOf } from "./message.ts";
import { account } from "./scenarios.ts";

/** The product with one safeguard taken out, from outside: between it and the database, the provider or the clock. */
export interface Mutant {
  name: string;
  /** The scenario in which it has to be caught. */
  scenario: string;
  /** Why nobody can tell it from the product. */
  equivalent?: string;
  /** Stands between an attempt and the world. */
  wrap?: (send: Send, attempt: { name: string; database: Database }) => Send;
  ports?: (ports: Ports, running: () => Actor) => Ports;
  /** SQL that changes the schema. */
  schema?: string;
}

const GENERATION = /"idempotency_keys"."generation" = \?/g;
const OWNER = /"idempotency_keys"."owner" = \?/g;
/** In the place of a comparison: takes its parameter, and holds. */
const ALWAYS = "? IS NOT NULL";
/** The sweep deletes, and books what it deletes. */
const OF_SWEEP = /^delete from "idempotency_keys"|^update "ledger_figures"/;
const TAKEOVER = 'do update set "status" = ?';

export const MUTANTS: Mutant[] = [
  {
    name: "no fence",
    scenario: "orders",
    wrap: rewriting((sql) => sql.replace("WHERE not exists", "WHERE 0 AND not exists")),
  },
  {
    name: "fence without generation",
    scenario: "orders past the window",
    equivalent: "an owner is unique to its attempt, and so says which generation it is",
    wrap: rewriting((sql) => sql.replace(GENERATION, ALWAYS)),
  },
  {
    name: "fence without generation, owners not unique",
    scenario: "orders",
    wrap: rewriting((sql) => sql.replace(GENERATION, ALWAYS)),
    ports: (ports) => ({ ...ports, newId: everySecond(ports.newId, "this machine") }),
  },
  {
    name: "fence without owner",
    scenario: "orders past the window",
    wrap: rewriting((sql) => sql.replace(OWNER, ALWAYS)),
  },
  { name: "commit split from the effects", scenario: "orders", wrap: splitCommit },
  { name: "fenced owner answers its own response", scenario: "orders", wrap: deafToTheFence },
  {
    name: "takeover without fingerprint",
    scenario: "orders",
    wrap: rewriting((sql) =>
      sql
        .replace('"idempotency_keys"."fingerprint" = ?', ALWAYS)
        .replace(TAKEOVER, `do update set "fingerprint" = excluded."fingerprint", "status" = ?`),
    ),
  },
  {
    name: "takeover of completed rows",
    scenario: "orders",
    wrap: rewriting((sql) =>
      sql
        .replace(/(?<=\? and )"idempotency_keys"."status" <> \?/, ALWAYS)
        .replace(TAKEOVER, `do update set "response_status" = NULL, "status" = ?`),
    ),
  },
  {
    name: "takeover begins a new operation",
    scenario: "payments",
    wrap: rewriting((sql) =>
      sql.replace(TAKEOVER, `do update set "operation_id" = excluded."operation_id", "status" = ?`),
    ),
  },
  { name: "blind retry after an ambiguous error", scenario: "orders", wrap: blindRetry },
  {
    name: "release by DELETE",
    scenario: "orders",
    wrap: rewriting((sql) =>
      sql.replace(
        /^update "idempotency_keys" set "status" = \? where /,
        `delete from "idempotency_keys" where ${ALWAYS} and `,
      ),
    ),
  },
  {
    name: "provider key from the generation",
    scenario: "payments",
    wrap: rekeying((key, { database }) => {
      const [row] = database.read<{ generation: number }>(
        "SELECT generation FROM idempotency_keys",
      );
      return `${key}-${row!.generation}`;
    }),
  },
  {
    name: "provider key random",
    scenario: "payments",
    wrap: rekeying((key, { name, calls }) => `${key}-${name}-${calls}`),
  },
  { name: "no checkpoint", scenario: "payments", wrap: withoutCheckpoint },
  {
    name: "sweep of rows inside their window",
    scenario: "orders past the window",
    wrap: rewriting((sql) => sql.replace('"idempotency_keys"."expires_at" < ?', ALWAYS)),
  },
  {
    name: "sweep of rows with a lease",
    scenario: "payments past the window",
    wrap: rewriting((sql) =>
      OF_SWEEP.test(sql) ? sql.replace('"updated_at" <= ?', `"updated_at" IS NOT ?`) : sql,
    ),
  },
  {
    name: "no unique active payment",
    scenario: "two keys pay one order",
    schema: "DROP INDEX payments_one_active_per_order",
  },
  {
    name: "one principal for all accounts",
    scenario: "one key, two accounts",
    wrap: (send) => (message) =>
      message.to === "d1"
        ? send({ ...message, statements: message.statements.map(asOnePrincipal) })
        : send(message),
  },
  {
    name: "clock read before the body",
    scenario: "orders by slow upload",
    ports: (ports, running) => ({ ...ports, now: () => running().startedAt() }),
  },
];

/** Rewrites every statement on its way to D1. */
function rewriting(rewrite: (sql: string) => string): NonNullable<Mutant["wrap"]> {
  const rewritten = (statement: Statement) => ({ ...statement, sql: rewrite(statement.sql) });
  return (send) => (message) =>
    message.to === "d1"
      ? send({ ...message, statements: message.statements.map(rewritten) })
      : send(message);
}

/** The ledger takes every account for the first. What the mutation writes is still the account's. */
function asOnePrincipal({ sql, params }: Statement): Statement {
  const isOfLedger = /^(insert into|update|select .* from) "idempotency_/.test(sql);
  const isAccount = (value: unknown) => typeof value === "string" && value.startsWith("acct_");
  return {
    sql,
    params: isOfLedger ? params.map((value) => (isAccount(value) ? account(1) : value)) : params,
  };
}

/** Sends what belongs to the ledger after the effects, in a transaction of its own. */
function splitCommit(send: Send): Send {
  return async (message) => {
    if (nameOf(message) !== "commit" || message.to !== "d1") return send(message);
    const effects = (await send({
      ...message,
      statements: message.statements.slice(0, -1),
    })) as Result[];
    const completed = (await send({
      ...message,
      statements: message.statements.slice(-1),
    })) as Result[];
    return [...effects, ...completed];
  };
}

/** Takes a lost fence for a commit. */
function deafToTheFence(send: Send): Send {
  return async (message) => {
    try {
      return await send(message);
    } catch (error) {
      if (!isAbout(error, "idempotency_fence_lost")) throw error;
      return done(message);
    }
  };
}

/** Does it over when the answer is lost: the same effects under an id of their own, and no fence. */
function blindRetry(send: Send): Send {
  return async (message) => {
    try {
      return await send(message);
    } catch (error) {
      const isBlind = nameOf(message) === "commit" && isAbout(error, "connection lost");
      if (!isBlind || message.to !== "d1") throw error;
      const anew = JSON.stringify(message.statements.slice(1)).replace(
        /ord_\w{8}/g,
        "ord_ffffffff",
      );
      return [
        ...done(message).slice(0, 1),
        ...((await send({ ...message, statements: JSON.parse(anew) })) as Result[]),
      ];
    }
  };
}

/** Believes that the intent is written down. */
function withoutCheckpoint(send: Send): Send {
  return async (message) => (nameOf(message) === "checkpoint" ? done(message) : send(message));
}

/** Sends calls to the provider under another key. */
function rekeying(
  rekey: (key: string, attempt: { name: string; database: Database; calls: number }) => string,
): NonNullable<Mutant["wrap"]> {
  return (send, attempt) => {
    let calls = 0;
    return (message) => {
      if (message.to !== "provider" || message.call.idempotencyKey === null) return send(message);
      calls += 1;
      const idempotencyKey = rekey(message.call.idempotencyKey, { ...attempt, calls });
      return send({ ...message, call: { ...message.call, idempotencyKey } });
    };
  };
}

/** What D1 says to a fenced batch that went through. */
function done(message: Message): Result[] {
  const statements = message.to === "d1" ? message.statements : [];
  return statements.map(() => ({ columns: [], rows: [], changes: 1 }));
}

function isAbout(error: unknown, words: string): boolean {
  return error instanceof Error && error.message.includes(words);
}

/** The ids of operations as they are, and one name for all owners. */
function everySecond(newId: () => string, name: string): () => string {
  let count = 0;
  return () => {
    count += 1;
    return count % 2 === 0 ? name : newId();
  };
}

/** @throws naming those that there are, when there is none of that name. */
export function mutantOf(name: string | null): Mutant | null {
  if (name === null) return null;
  const found = MUTANTS.find((mutant) => mutant.name === name);
  if (found !== undefined) return found;
  const names = MUTANTS.map((mutant) => `  ${mutant.name}`).join("\n");
  throw new Error(`There is no mutant "${name}". There are:\n${names}`);
}
