/** A script in load-tests/, and the service that it needs. */
export interface Lesson {
  script: string;
  /** Which of the options of `npm run load` it takes. */
  options: readonly LoadOption[];
  /** Settings of the service. The script hears of them, too. */
  vars: Record<string, string>;
  /** What else the script has to know of the service. */
  env?: Record<string, string>;
  /** Another entry of the Worker than wrangler.toml's. */
  entry?: string;
}

export type LoadOption = "vus" | "keys" | "rate" | "duration";

export const LESSONS: Record<string, Lesson> = {
  "01": { script: "01-smoke.ts", options: [], vars: {} },
  "02": { script: "02-duplicate-storm.ts", options: ["vus", "keys"], vars: {} },
  "03": {
    script: "03-takeover.ts",
    options: ["vus", "keys"],
    // Short, so that many stalls fit into a run; the lease must outlast the provider call and half a second.
    vars: { PROVIDER_TIMEOUT_MS: "500", PENDING_TTL_MS: "1500" },
    env: { CLOCKS: "wrong" },
    entry: "scripts/load/worker-of-disagreeing-clocks.ts",
  },
  "04": { script: "04-mixed.ts", options: ["vus", "keys", "rate", "duration"], vars: {} },
  "05": { script: "05-control.ts", options: ["vus", "keys"], vars: { LAB: "on" } },
  "06": {
    script: "06-soak.ts",
    options: ["vus", "rate", "duration"],
    // A window that passes thirty times in ten minutes, and two leases long at least.
    vars: { PROVIDER_TIMEOUT_MS: "2000", PENDING_TTL_MS: "5000", RETENTION_MS: "20000" },
  },
};
