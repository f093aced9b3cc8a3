import { z } from "@hono/zod-openapi";

import type { StoredResponse } from "./idempotency/decide.ts";

/** ISO 4217 alphabetic code. Which codes exist is the payment provider's to say. */
export const Currency = z
  .string()
  .regex(/^[A-Z]{3}$/, "must be three capital letters, as in ISO 4217");

/** Integer minor units, at most twelve digits: what the payment provider accepts. */
export const Money = z.int().min(0).max(999_999_999_999);

/**
 * Text that a database and a client both give back as it came: no NUL (SQLite's functions stop at it) and no lone
 * surrogate (UTF-8 cannot carry it).
 */
export const text = (maxLength: number) =>
  z
    .string()
    .min(1)
    .max(maxLength)
    .refine((value) => !value.includes("\0") && value.isWellFormed(), {
      error: "must not contain NUL or lone surrogates",
    });

/** A 200 with a JSON body, to be stored. */
export function ok(body: unknown): StoredResponse {
  return {
    status: 200,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  };
}

/** A 201 that says where the new resource is. */
export function created(location: string, body: unknown): StoredResponse {
  const response = ok(body);
  return { ...response, status: 201, headers: { ...response.headers, location } };
}

/** Epoch ms as ISO 8601 UTC. */
export function timestamp(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
