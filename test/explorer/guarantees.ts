import { drizzle } from "drizzle-orm/d1";

import { audit } from "../../src/operator/audit.ts";
import type { Answer } from "./actor.ts";
import { bindingTo } from "./database.ts";
import { PENDING_TTL_MS } from "./scenarios.ts";
import type { World } from "./world.ts";

/**
 * What is broken once a schedule is over, each with the number of its guarantee in docs/protocol.md. Empty: nothing.
 */
export async function violationsOf(world: World): Promise<string[]> {
  const effects = effectsOf(world);
  if (world.scenario.isNaive === true) return brokenByCount(world, effects);
  const broken = [
    ...world.watch.violations(),
    ...brokenByCount(world, effects),
    ...brokenForClients(world, effects),
    ...brokenForLedger(world, effects),
    ...(await brokenForAudit(world)),
  ];
  return [...new Set(broken)].toSorted();
}

interface Effect {
  id: string;
  account: string;
}

function effectsOf({ database, scenario }: World): Effect[] {
  return database.read<Effect>(scenario.effects);
}

function brokenByCount({ scenario, watch }: World, effects: Effect[]): string[] {
  const keys = new Set(scenario.retries.map(({ key, accountId }) => `${accountId} ${key}`));
  const isOne = effects.length <= keys.size + watch.evictions();
  return isOne ? [] : ["1. one key had two effects"];
}

function brokenForClients({ answers, scenario, waits, watch }: World, effects: Effect[]): string[] {
  const broken: string[] = [];
  const ids = new Set(effects.map(({ id }) => id));
  for (const { key, apiKey, accountId, body } of scenario.retries) {
    const ofKey = answers.filter(({ client }) => client.key === key && client.apiKey === apiKey);
    const successes = ofKey.filter(({ answer }) => answer.status < 300);
    // A key whose row was evicted when its time had come names a new operation.
    const lives = 1 + watch.evictions();
    if (new Set(successes.map(({ answer }) => answer.bytes)).size > lives) {
      broken.push("2. two successes of one key differ");
    }
    const sameBody = ofKey.filter(
      ({ client }) => JSON.stringify(client.body) === JSON.stringify(body),
    );
    const definite = sameBody.filter(({ answer }) => !answer.isRetryable);
    if (new Set(definite.map(({ answer }) => fateOf(answer))).size > lives) {
      broken.push("2. two definite answers to one request differ");
    }
    if (successes.some(({ answer }) => !ids.has(answer.id!))) {
      broken.push("3. a client was told of something that is not there");
    }
    const isElsewhere = successes.some(({ answer }) =>
      effects.some(({ id, account }) => id === answer.id && account !== accountId),
    );
    if (isElsewhere) broken.push("7. a client was answered with what belongs to another account");
    const last = sameBody.at(-1)?.answer;
    if (watch.evictions() === 0 && last !== undefined && last.status < 300 && !last.isReplayed) {
      broken.push("1. the last try was executed once more");
    }
  }
  if (waits.some(({ isAnswered }) => !isAnswered)) {
    broken.push("9. a client that retried got no definite answer");
  }
  if (waits.some(({ waitedMs }) => waitedMs > PENDING_TTL_MS)) {
    broken.push("9. a client that retried had to wait for longer than a pending TTL");
  }
  return broken;
}

/** All of a stored answer; of a refusal that is not stored, what it says. */
function fateOf({ error, bytes }: Answer): string {
  return error === "idempotency_key_reused" ? error : bytes;
}

function brokenForLedger({ database, watch }: World, effects: Effect[]): string[] {
  const keys = database.read<{ id: string }>(
    "SELECT principal || ' ' || operation_id AS id FROM idempotency_keys WHERE response_status = 201",
  );
  const completed = new Set(keys.map(({ id }) => id));
  const made = effects.map(({ id, account }) => `${account} ${id.slice(id.indexOf("_") + 1)}`);
  const broken: string[] = [];
  if (watch.evictions() === 0 && database.unsettled().length > 0) {
    broken.push("5. every key is answered, and a payment or refund is still unsettled");
  }
  if ([...completed].some((id) => !made.includes(id))) {
    broken.push("4. a key is completed whose effect is not there");
  }
  // Of what was made before its row was evicted, the row says nothing any more.
  if (watch.evictions() === 0 && made.some((id) => !completed.has(id))) {
    broken.push("4. an effect is there whose key is not completed");
  }
  return broken;
}

async function brokenForAudit({ database, provider }: World): Promise<string[]> {
  const db = drizzle(bindingTo(async (statements) => database.carryOut(statements)));
  const { checks } = await audit(db, provider as never);
  return checks
    .filter(({ violations }) => violations > 0)
    .map(({ name, guarantee }) => `${guarantee}. the audit finds ${name}`);
}
