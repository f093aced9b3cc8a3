import canonicalize from "canonicalize";

import { sha256Hex } from "./sha256.ts";

/**
 * How the body enters the fingerprint: byte for byte, or as RFC 8785 canonical JSON. To the latter, as to JSON.parse, the
 * last of two members of one name counts, and integers past 2^53 are the nearest double.
 */
export type FingerprintMode = "raw" | "canonical-json";

export interface FingerprintInput {
  method: string;
  /** Path and query exactly as received, never decoded or reordered. */
  pathAndQuery: string;
  headers: Headers;
  body: Uint8Array;
  mode: FingerprintMode;
}

/** The headers that change what a request means. Everything else may differ between a try and its retry. */
const FINGERPRINTED_HEADERS = ["content-type", "x-api-version"] as const;

const encoder = new TextEncoder();

/**
 * Identifies a request by its content: `v1:` and 64 hex digits of SHA-256.
 *
 * The encoding is injective: every part carries its length, and an absent header differs from an empty one, so no two
 * different requests encode to the same bytes. The version prefix lets a later encoding live beside this one.
 */
export async function fingerprintRequest(input: FingerprintInput): Promise<string> {
  const canonical = input.mode === "canonical-json" ? canonicalBody(input.body) : undefined;
  const parts = [
    present(encoder.encode(input.method.toUpperCase())),
    present(encoder.encode(input.pathAndQuery)),
    ...FINGERPRINTED_HEADERS.map((name) => optional(input.headers.get(name))),
    present(encoder.encode(canonical === undefined ? "raw" : "canonical-json")),
    present(canonical ?? input.body),
  ];
  return `v1:${await sha256Hex(new Uint8Array(await new Blob(parts.flat()).arrayBuffer()))}`;
}

function present(bytes: Uint8Array): Uint8Array[] {
  return [encoder.encode(`${bytes.byteLength}:`), bytes];
}

function optional(value: string | null): Uint8Array[] {
  return value === null ? [encoder.encode("-:")] : present(encoder.encode(value));
}

/** Undefined when the body is not JSON, or holds a number that RFC 8785 cannot write: then its bytes count. */
function canonicalBody(body: Uint8Array): Uint8Array | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(body);
    const canonical = canonicalize(JSON.parse(text));
    return canonical === undefined ? undefined : encoder.encode(canonical);
  } catch {
    return undefined;
  }
}
