import { z } from "@hono/zod-openapi";

import type { LedgerRow } from "./schema.ts";

/** What `GET /idempotency-keys/{key}` shows its owner: enough to decide whether to retry, wait or read the result. */
export const KeyStatus = z
  .object({
    key: z.string(),
    status: z.enum(["pending", "completed", "released"]),
    generation: z.int().describe("1, and one more for every takeover."),
    method: z.string(),
    path: z.string(),
    response_status: z.int().nullable().describe("Null until completed."),
    location: z.string().nullable().describe("Where the created resource is."),
    created_at: z.iso.datetime(),
    expires_at: z.iso.datetime().describe("Replays are promised until then, and may go on longer."),
  })
  .openapi("IdempotencyKey", {
    example: {
      key: "basket-17",
      status: "completed",
      generation: 1,
      method: "POST",
      path: "/orders",
      response_status: 201,
      location: "/orders/ord_0192f3a0-0000-7000-8000-000000000002",
      created_at: "2026-01-01T12:00:00.000Z",
      expires_at: "2026-01-02T12:00:00.000Z",
    },
  });

export function keyStatusOf(row: LedgerRow): z.infer<typeof KeyStatus> {
  const headers: Record<string, string> = JSON.parse(row.responseHeaders ?? "{}");
  return {
    key: row.key,
    status: row.status,
    generation: row.generation,
    method: row.requestMethod,
    path: row.requestPath,
    response_status: row.responseStatus,
    location: headers["location"] ?? null,
    created_at: new Date(row.createdAt).toISOString(),
    expires_at: new Date(row.expiresAt).toISOString(),
  };
}
