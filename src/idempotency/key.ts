/** Longest accepted key, in characters: the limit that Stripe documents, so that keys can be passed through. */
export const MAX_KEY_LENGTH = 255;

export type ParsedKey =
  | { kind: "key"; key: string }
  | { kind: "absent" }
  | { kind: "invalid"; detail: string };

const PRINTABLE_ASCII = /^[\x20-\x7e]+$/;
// An RFC 9651 String: printable ASCII, in which only `"` and `\` are escaped, by a backslash.
const QUOTED_STRING = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/;

/** Both forms as a JSON Schema `pattern`, for documents. A test holds it to what is accepted. */
export const KEY_SYNTAX = String.raw`^(?:"(?:[ !#-\[\]-~]|\\["\\]){1,${MAX_KEY_LENGTH}}"|[ !#-+\--~][ -+\--~]{0,${MAX_KEY_LENGTH - 1}})$`;

/**
 * Reads the value of an Idempotency-Key header.
 *
 * Accepts the quoted form of draft-ietf-httpapi-idempotency-key-header §2.1 (an RFC 9651 String) and the bare form that
 * most clients send; `"abc"` and `abc` name the same key.
 */
export function parseIdempotencyKey(header: string | null | undefined): ParsedKey {
  if (header === null || header === undefined) return { kind: "absent" };

  const quoted = QUOTED_STRING.exec(header);
  if (quoted === null && header.startsWith('"')) {
    return invalid(
      'A key that starts with a quote must be one RFC 9651 String, such as "8e03978e".',
    );
  }
  // Two headers of one name arrive joined by a comma. Taking that for one key would hide the client's bug.
  if (quoted === null && header.includes(",")) {
    return invalid("A bare key must not contain a comma; send one key, or quote it.");
  }
  const key = quoted === null ? header : quoted[1]!.replaceAll(/\\(["\\])/g, "$1");

  if (key.length === 0) return invalid("The key is empty.");
  if (key.length > MAX_KEY_LENGTH) {
    return invalid(`The key has ${key.length} characters; at most ${MAX_KEY_LENGTH} are accepted.`);
  }
  if (!PRINTABLE_ASCII.test(key)) return invalid("The key must be printable ASCII (0x20 to 0x7e).");
  return { kind: "key", key };
}

function invalid(detail: string): ParsedKey {
  return { kind: "invalid", detail };
}
