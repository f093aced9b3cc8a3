/** Longest wait that `Prefer: wait` buys, in seconds (RFC 7240 §4.3). */
export const MAX_WAIT_SECONDS = 10;
// RFC 7240 §2: preferences are parted by commas, but not by those inside quotes, and the first of one name counts.
// A quote that is not closed reaches to the end, so that no position is scanned twice.
const PREFERENCE = /(?:[^,"]|"(?:\\.|[^"\\])*(?:"|\\?$))+/g;
const WAIT = /^\s*wait\s*=\s*(?:"(\d+)"|(\d+))\s*(?:;.*)?$/i;

/** Seconds that the client is willing to wait for another attempt's outcome: 0 without a preference. */
export function preferredWaitSeconds(prefer: string | undefined): number {
  const preferences = (prefer ?? "").match(PREFERENCE) ?? [];
  const first = preferences.find((preference) => /^\s*wait\b\s*(?:[=;]|$)/i.test(preference));
  const wait = WAIT.exec(first ?? "");
  return wait === null ? 0 : Math.min(Number(wait[1] ?? wait[2]), MAX_WAIT_SECONDS);
}
