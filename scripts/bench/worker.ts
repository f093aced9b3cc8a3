// The Worker as it is, with a driver beside it that puts requests to it inside the runtime: neither sockets nor the
// development server's proxy, which cost more than an order does, dilute what is compared.
import { interceptD1 } from "../../src/d1.ts";
import { CRONS } from "../../src/env.ts";
import worker, { StripeSandbox } from "../../src/index.ts";
import { type Drive, type Driven, type Hold, type Plant, SPREAD, type Swept } from "./protocol.ts";

export { StripeSandbox };

// What a line costs here is the terminal's doing, not the service's.
console.info = () => undefined;
console.error = () => undefined;

export default {
  async fetch(request, env, context) {
    switch (new URL(request.url).pathname) {
      case "/bench/drive":
        return Response.json(await drive(await request.json(), env, context));
      case "/bench/plant":
        return Response.json(await plant(await request.json(), env.DB));
      case "/bench/hold":
        return Response.json(await hold(await request.json(), env.DB));
      case "/bench/expire":
        return Response.json(await expire(env.DB));
      case "/bench/sweep":
        return Response.json(await sweep(env));
      default:
        return worker.fetch(request, env, context);
    }
  },
} satisfies ExportedHandler<Env>;

async function drive(wanted: Drive, env: Env, context: ExecutionContext): Promise<Driven> {
  const { apiKey, path, body, lanes, status } = wanted;
  const { counted, costs } = countingD1(env, wanted.d1DelayMs);
  const left = [...wanted.keys];
  const lane = async () => {
    for (let key = left.pop(); key !== undefined; key = left.pop()) {
      const headers = {
        authorization: `Bearer ${apiKey}`,
        "content-type": "application/json",
        "idempotency-key": key,
      };
      const request = new Request(`http://bench${path}`, { method: "POST", headers, body });
      const answer = await worker.fetch(request, counted, context);
      const text = await answer.text();
      if (answer.status !== status) throw new Error(`${path} answered ${answer.status}: ${text}`);
    }
  };
  const startedAt = Date.now();
  await Promise.all(Array.from({ length: lanes }, lane));
  return { ms: Date.now() - startedAt, ...costs };
}

async function sweep(env: Env): Promise<Swept> {
  const evicted = () =>
    env.DB.prepare("SELECT evicted FROM ledger_figures").first<number>("evicted");
  const before = await evicted();
  const { counted, costs } = countingD1(env, 0);
  const startedAt = Date.now();
  const event = { cron: CRONS.sweep, scheduledTime: startedAt, noRetry() {} };
  await worker.scheduled(event, counted);
  const ms = Date.now() - startedAt;
  return { ms, ...costs, evicted: (await evicted())! - before! };
}

function countingD1(env: Env, delayMs: number) {
  const costs = { roundTrips: 0, rowsWritten: 0 };
  const DB = interceptD1(env.DB, async (send) => {
    costs.roundTrips += 1;
    if (delayMs > 0) await scheduler.wait(delayMs);
    const result = await send();
    for (const one of [result].flat() as Partial<D1Result>[]) {
      costs.rowsWritten += one.meta?.rows_written ?? 0;
    }
    return result;
  });
  return { counted: { ...env, DB }, costs };
}

const OF_REQUEST =
  "principal, operation_id, fingerprint, generation, owner, request_method, request_path, created_at";
const OF_OUTCOME = "status, response_status, response_headers, response_body, updated_at";

/** The windows end one after the other, so that the index is as it would be. */
async function plant({ template, from, to }: Plant, db: D1Database) {
  const { meta } = await db
    .prepare(
      `WITH RECURSIVE numbers (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?2)
      INSERT INTO idempotency_keys (key, expires_at, ${OF_REQUEST}, ${OF_OUTCOME})
      SELECT printf('%08x', n * ${SPREAD.factor} % ${SPREAD.modulus}), expires_at + n, ${OF_REQUEST}, ${OF_OUTCOME}
      FROM numbers, idempotency_keys WHERE key = ?3`,
    )
    .bind(from, to, template)
    .run();
  return { planted: meta.changes };
}

async function hold({ template, key }: Hold, db: D1Database) {
  const { meta } = await db
    .prepare(
      `INSERT OR REPLACE INTO idempotency_keys (key, status, updated_at, expires_at, ${OF_REQUEST})
      SELECT ?1, 'pending', ?2, expires_at, ${OF_REQUEST} FROM idempotency_keys WHERE key = ?3`,
    )
    .bind(key, Date.now(), template)
    .run();
  return { held: meta.changes };
}

/** Ends the window of every row long ago. */
async function expire(db: D1Database) {
  const { meta } = await db
    .prepare("UPDATE idempotency_keys SET expires_at = expires_at / 2")
    .run();
  return { expired: meta.changes };
}
