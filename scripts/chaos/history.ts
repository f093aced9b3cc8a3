/** What came back for one request, as far as its key is concerned. */
export type Outcome =
  /** The key's answer. `bytes` is all that a replay must give back: status, stored headers, body. */
  | { kind: "decided"; isReplay: boolean; bytes: string }
  /** Another attempt holds the claim. */
  | { kind: "in_progress" }
  /** The key is for another request. */
  | { kind: "reused" }
  /** No answer, or one that leaves it open: the request may take effect at any time after it was sent, or never. */
  | { kind: "undecided"; why: string };

/** One request, from just before it was sent until its answer was read. Times are ms of one monotonic clock. */
export interface Operation {
  /** Which key, and whose. */
  key: string;
  /** All that the fingerprint covers. */
  request: string;
  /** Who sent it. */
  client: string;
  invokedAt: number;
  answeredAt: number;
  outcome: Outcome;
}

export type Recorder = ReturnType<typeof openRecorder>;

/** Writes down every request that is sent through it. */
export function openRecorder(now: () => number) {
  const operations: Operation[] = [];
  let underWay = 0;
  return {
    /** In the order in which they were answered. */
    operations,
    /** How many wait for their answer. */
    underWay: () => underWay,
    async record(
      sent: Pick<Operation, "key" | "request" | "client">,
      send: () => Promise<Outcome>,
    ): Promise<Outcome> {
      const invokedAt = now();
      underWay += 1;
      const outcome = await send();
      underWay -= 1;
      operations.push({ ...sent, invokedAt, answeredAt: now(), outcome });
      return outcome;
    },
  };
}

/** An operation as a person reads it. */
export function describe({ client, request, invokedAt, answeredAt, outcome }: Operation): string {
  const times = `${invokedAt.toFixed(1)} to ${answeredAt.toFixed(1)} ms`;
  return [times, client, request, JSON.stringify(outcome)].join("  ");
}
