import { bodyLimit } from "hono/body-limit";
import { createMiddleware } from "hono/factory";

import { problemResponse } from "./problem.ts";
import type { AppEnv } from "./scope.ts";

/**
 * Reads the whole body, up to the limit, before anything else looks at it. Its bytes are cached on the request: the
 * fingerprint is taken over exactly these, and the JSON that is validated is parsed from them.
 */
export const readBody = createMiddleware<AppEnv>(async (c, next) => {
  const maxSize = c.var.config.bodyLimitBytes;
  const tooLarge = () => problemResponse(c, "body_too_large", { limit_bytes: maxSize });
  return bodyLimit({ maxSize, onError: tooLarge })(c, async () => {
    const bytes = await c.req.arrayBuffer();
    // The middleware believes a Content-Length; only the bytes that arrived are certain.
    if (bytes.byteLength > maxSize) {
      c.res = tooLarge();
      return;
    }
    if (!isUtf8(bytes)) {
      c.res = problemResponse(c, "invalid_request", {
        errors: [{ path: "", message: "The body is not valid UTF-8" }],
      });
      return;
    }
    await next();
  });
});

/** RFC 8259 §8.1 wants UTF-8; a lenient decoder would store other text than was sent. */
function isUtf8(bytes: ArrayBuffer): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}
