import parsePrometheusTextFormat from "parse-prometheus-text-format";

import { type Account, type Json, openShop, type TestClock } from "./shop.ts";

const ADMIN_TOKEN = "operator-token-of-the-test";

/** The operator's view of the shop, at a clock's time and through a database of the test's own, if it is given one. */
export async function openOffice(setup: { account?: Account; clock?: TestClock; DB?: D1Database }) {
  const { account, clock, DB } = setup;
  const office = await openShop({
    ...(account && { account }),
    ...(clock && { ports: clock }),
    bindings: { ADMIN_TOKEN, ...(DB && { DB }) },
  });
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const ask = (path: string) => office.send(new Request(`http://shop.test${path}`, { headers }));
  return {
    ask,
    ledger: async () => (await ask("/admin/ledger")).json as unknown as LedgerFigures,
    /** Each sample's value, by the metric's name and, where it has one, the status. */
    metrics: async () => samplesOf((await ask("/metrics")).body),
  };
}

/** The body of `GET /admin/ledger`, as far as tests look into it. */
interface LedgerFigures {
  rows: Json;
  oldest_live: string | null;
  takeovers: number;
  fenced_out: number;
  eviction: Json & { evicted: number; last_run: Run | null; earlier_runs: Run[] };
}

interface Run {
  started_at: string;
  ended_at: string | null;
  duration_ms: number | null;
  evicted: number;
  batches: number;
  caught_up: boolean | null;
  lag_ms: number | null;
}

function samplesOf(exposition: string): Record<string, number> {
  const samples = parsePrometheusTextFormat(exposition).flatMap(({ name, metrics }) =>
    metrics.map(({ value, labels }) => {
      const status = labels?.["status"];
      return [status === undefined ? name : `${name} ${status}`, Number(value)] as const;
    }),
  );
  return Object.fromEntries(samples);
}
