import { cp } from "node:fs/promises";
import { join } from "node:path";

import { ACME, oneOf } from "../demo-shop.ts";
import { startLocalService } from "../local-service.ts";
import type { Drive, Driven, Hold, Plant, Swept } from "./protocol.ts";

/** Rows that one statement plants. */
const PLANT_BATCH = 50_000;
const TEMPLATE = "template";
/** Most that can be stocked. */
const STOCK = 1_000_000_000;
/** An order, unless something else is asked for: one after the other, beside its database. */
const PLAIN = { path: "/orders", lanes: 1, d1DelayMs: 0, status: 201 };

/** A service with a ledger of a certain size, and what can be asked of it. Its answers are to one order, under many keys. */
export interface Bench {
  rows: number;
  drive(wanted: Partial<Drive> & Pick<Drive, "keys">): Promise<Driven>;
  /** Gives the key a claim that somebody holds, for one lease. */
  hold(key: string): Promise<void>;
  /** Ends the window of every row. */
  expire(): Promise<void>;
  /** One run of the cron. */
  sweep(): Promise<Swept>;
}

/** @param rows How many completed keys its ledger holds, under `plantedKey(0)` and so on. */
export async function startBench(
  rows: number,
  { home, prepared }: { home: string; prepared: string },
): Promise<Bench> {
  const persistTo = join(home, `rows-${rows}`);
  await cp(prepared, persistTo, { recursive: true });
  const { url } = await startLocalService({
    persistTo,
    tmpDir: home,
    vars: { LAB: "on" },
    args: ["--env", "load", "scripts/bench/worker.ts"],
  });
  const ask = async <Answer>(path: string, body: object): Promise<Answer> => {
    const answer = await fetch(`${url}${path}`, { method: "POST", body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
    return answer.json<Answer>();
  };
  const { apiKey } = ACME;
  const body = oneOf({ ...ACME, product: await stockUp(url) }, "bench");
  const drive = (wanted: Partial<Drive> & Pick<Drive, "keys">) =>
    ask<Driven>("/bench/drive", { apiKey, body, ...PLAIN, ...wanted } satisfies Drive);

  await drive({ keys: [TEMPLATE] });
  for (let from = 0; from < rows; from += PLANT_BATCH) {
    const to = Math.min(rows, from + PLANT_BATCH);
    await ask("/bench/plant", { template: TEMPLATE, from, to } satisfies Plant);
  }
  return {
    rows,
    drive,
    hold: (key) => ask("/bench/hold", { template: TEMPLATE, key } satisfies Hold),
    expire: () => ask("/bench/expire", {}),
    sweep: () => ask<Swept>("/bench/sweep", {}),
  };
}

async function stockUp(url: string): Promise<string> {
  const body = { sku: "BENCH", name: "Bench", unit_price: 1250, currency: "EUR", stock: STOCK };
  const answer = await fetch(`${url}/products`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${ACME.apiKey}`,
      "content-type": "application/json",
      "idempotency-key": "product",
    },
    body: JSON.stringify(body),
  });
  if (answer.status !== 201) throw new Error(`no product to sell: ${await answer.text()}`);
  return (await answer.json<{ id: string }>()).id;
}
