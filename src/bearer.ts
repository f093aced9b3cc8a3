import type { Context } from "hono";

// RFC 6750 §2.1; the scheme's name is case-insensitive.
const token = String.raw`[\w~+/.-]+=*`;
const BEARER = new RegExp(`^bearer +(${token})$`, "i");

/** What may be a token. */
export const TOKEN = new RegExp(`^${token}$`);

/** The token of `Authorization: Bearer <token>`. Undefined when there is none. */
export function bearerToken(c: Context): string | undefined {
  return BEARER.exec(c.req.header("authorization") ?? "")?.[1];
}
