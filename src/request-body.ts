import type { Context } from "hono";
import { createMiddleware } from "hono/factory";

import type { Config } from "./env.ts";
import { problemResponse } from "./problem.ts";
import type { AppEnv } from "./scope.ts";

/**
 * How much of a body that is too large is read and thrown away before it is refused. A proxy that is still sending when
 * the answer comes may drop the connection instead of passing the answer on; past this the sender means no good.
 */
const DISCARD_LIMIT_BYTES = 16 * 1024 * 1024;

/**
 * Reads the whole body, up to the limit, before anything else looks at it. The fingerprint is taken over exactly these
 * bytes, and the JSON that is validated is parsed from them.
 */
export const readBodyUpTo = (limitOf: (config: Config) => number) =>
  createMiddleware<AppEnv>(async (c, next) => {
    const limit = limitOf(c.var.config);
    // Bytes are counted as they arrive: a length may be announced wrongly, or not at all.
    const body = await readUpTo(c.req.raw.body, limit);
    if (body === "too large") return problemResponse(c, "body_too_large", { limit_bytes: limit });
    if (body === "broken off") return invalid(c, "The body broke off");
    if (!isUtf8(body)) return invalid(c, "The body is not valid UTF-8");
    c.req.raw = new Request(c.req.raw, { method: c.req.method, body });
    // Cached as bytes first: Hono derives text and JSON from what was read first, and text would not give the bytes back.
    await c.req.arrayBuffer();
    return next();
  });

export const readBody = readBodyUpTo(({ bodyLimitBytes }) => bodyLimitBytes);

function invalid(c: Context<AppEnv>, message: string): Response {
  return problemResponse(c, "invalid_request", { errors: [{ path: "", message }] });
}

async function readUpTo(
  stream: ReadableStream<Uint8Array> | null,
  limit: number,
): Promise<Uint8Array | "too large" | "broken off"> {
  // Copied into one buffer: a chunk keeps all the memory that it was read into, however few bytes it holds.
  const body = new Uint8Array(limit);
  let size = 0;
  try {
    for await (const chunk of stream ?? []) {
      if (size + chunk.byteLength <= limit) body.set(chunk, size);
      size += chunk.byteLength;
      if (size > DISCARD_LIMIT_BYTES) break;
    }
  } catch {
    return "broken off";
  }
  return size > limit ? "too large" : body.subarray(0, size);
}

/** RFC 8259 §8.1 wants UTF-8; a lenient decoder would store other text than was sent. */
function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}
