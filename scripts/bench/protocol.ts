// What the benchmark and the driver inside its Worker (worker.ts) say to each other.

/** `POST /bench/drive`: puts the same request to the Worker, once for each key. */
export interface Drive {
  apiKey: string;
  path: string;
  body: string;
  keys: readonly string[];
  /** How many are under way at once. */
  lanes: number;
  /** Added to every round trip to D1, ms: the way to a database in another region. */
  d1DelayMs: number;
  /** That each answer must have. */
  status: number;
}

export interface Driven {
  /** From the first request to the last answer. */
  ms: number;
  roundTrips: number;
  /** As D1 bills them. */
  rowsWritten: number;
}

/** `POST /bench/plant`: copies the completed row of one key under `plantedKey(from)` to `plantedKey(to - 1)`. */
export interface Plant {
  template: string;
  from: number;
  to: number;
}

/** `POST /bench/hold`: gives a key a claim that somebody holds, for the request of the template. */
export interface Hold {
  template: string;
  key: string;
}

/** What `POST /bench/sweep` answers, one run of the cron. */
export interface Swept extends Driven {
  evicted: number;
}

/** Knuth's multiplicative hash: spreads the keys over the whole table, as the random ones of clients are. */
export const SPREAD = { factor: 2_654_435_761, modulus: 2 ** 32 };

export function plantedKey(number: number): string {
  return ((number * SPREAD.factor) % SPREAD.modulus).toString(16).padStart(8, "0");
}
