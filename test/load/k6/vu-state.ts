import type { Metrics, Tags } from "./metrics.ts";

export interface Iteration {
  scenario: string;
  executor: string;
  /** Counted across all VUs of the scenario, from 0. */
  inTest: number;
  /** Counted for this VU. */
  ofVu: number;
}

/** What a module may know of the VU that it belongs to. */
export interface VuState {
  id: number;
  /** While the script's modules are evaluated: only then metrics can be defined, and nothing can be sent. */
  isInit: boolean;
  /** Undefined in setup() and teardown(). */
  iteration: Iteration | undefined;
  metrics: Metrics;
  isExpected: (status: number) => boolean;
}

/** The tags that every sample of a VU has. */
export function tagsOf({ iteration }: VuState): Tags {
  return iteration === undefined ? {} : { scenario: iteration.scenario };
}

export function requireRunning({ isInit }: VuState, what: string): void {
  if (isInit) throw new Error(`${what} cannot be used while the script is loaded`);
}

/** Reading anything else is an error, instead of undefined. */
export function onlyKnown<T extends object>(what: string, known: T): T {
  return new Proxy(known, {
    get: (target, name, receiver) => {
      // Whoever awaits it asks whether it is a promise.
      if (name in target || name === "then") return Reflect.get(target, name, receiver) as unknown;
      throw new Error(`the stand-in has no ${String(name)} in ${what}`);
    },
  });
}
