import { z } from "@hono/zod-openapi";

import { parseIdempotencyKey } from "./idempotency/key.ts";
import { lookUp, type Database } from "./idempotency/ledger.ts";
import { KeyStatus, keyStatusOf } from "./idempotency/lookup.ts";
import { readRoute } from "./routes.ts";

export const keyStatusRoute = readRoute({
  path: "/idempotency-keys/{key}",
  summary: "Read what became of one of your own keys",
  params: z.object({
    key: z.string().describe("Percent-encoded; bare or quoted, as in the header."),
  }),
  wire: KeyStatus,
});

export async function readKeyStatus(db: Database, principal: string, value: string) {
  const parsed = parseIdempotencyKey(value);
  if (parsed.kind !== "key") return undefined;
  const row = await lookUp(db, { principal, key: parsed.key });
  return row && keyStatusOf(row);
}
