import { createHash } from "node:crypto";

import { type FingerprintMode, fingerprintRequest } from "../../src/idempotency/fingerprint.ts";

/** A request as it is fingerprinted, before the headers are an object. */
export interface Sent {
  method: string;
  pathAndQuery: string;
  contentType: string | null;
  apiVersion: string | null;
  body: string | Uint8Array;
  mode: FingerprintMode;
}

export const order: Sent = {
  method: "POST",
  pathAndQuery: "/orders?dry_run=1",
  contentType: "application/json",
  apiVersion: null,
  body: '{"items":[{"product_id":"prod_1","quantity":2}]}',
  mode: "raw",
};

export function fingerprint(difference: Partial<Sent> = {}, more: Record<string, string> = {}) {
  const { method, pathAndQuery, contentType, apiVersion, body, mode } = { ...order, ...difference };
  const headers = new Headers(more);
  if (contentType !== null) headers.set("content-type", contentType);
  if (apiVersion !== null) headers.set("x-api-version", apiVersion);
  return fingerprintRequest({ method, pathAndQuery, headers, body: bytesOf(body), mode });
}

export function bytesOf(body: string | Uint8Array): Uint8Array {
  return typeof body === "string" ? new TextEncoder().encode(body) : body;
}

export const canonical = (body: string | Uint8Array) =>
  fingerprint({ body, mode: "canonical-json" });

/** The encoding of version 1, written down a second time: every part as `length:bytes`, an absent header as `-:`. */
export function expectedV1(parts: (string | Uint8Array | null)[]): string {
  const hash = createHash("sha256");
  for (const part of parts) {
    const bytes = part === null ? null : bytesOf(part);
    hash.update(bytes === null ? "-:" : `${bytes.byteLength}:`);
    hash.update(bytes ?? "");
  }
  return `v1:${hash.digest("hex")}`;
}
