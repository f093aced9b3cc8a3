import { env } from "cloudflare:workers";

import { sql } from "./shop.ts";

const RETENTION_MS = 86_400_000;

interface Planted {
  expiresAt: number;
  status?: "released" | "pending" | "completed";
  updatedAt?: number;
}

/** Rows put into the ledger beside the API, `${status}1` to `${status}${count}`, all in one statement. */
export async function plant(
  principal: string,
  count: number,
  { expiresAt, status = "released", updatedAt = 0 }: Planted,
): Promise<void> {
  const responseStatus = status === "completed" ? 201 : null;
  await sql`WITH RECURSIVE series (value) AS (
      SELECT 1 UNION ALL SELECT value + 1 FROM series WHERE value < ${count}
    )
    INSERT INTO idempotency_keys
      (principal, key, operation_id, fingerprint, status, generation, owner, request_method, request_path,
       response_status, created_at, updated_at, expires_at)
    SELECT ${principal}, ${status} || value, 'op', 'v1:', ${status}, 1, 'owner', 'POST', '/orders',
       ${responseStatus}, ${expiresAt - RETENTION_MS}, ${updatedAt}, ${expiresAt}
    FROM series`.run();
}

/** Leaves no key, no run and no figure of the test before. */
export async function emptyLedger(): Promise<void> {
  await env.DB.batch([
    sql`DELETE FROM idempotency_keys`,
    sql`DELETE FROM sweep_runs`,
    sql`UPDATE ledger_figures SET evicted = 0, takeovers = 0, fenced_out = 0, counted_at = NULL`,
  ]);
}
