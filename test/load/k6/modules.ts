import type * as k6 from "k6";
import type * as k6Execution from "k6/execution";
import type * as k6Http from "k6/http";
import type * as k6Timers from "k6/timers";

import { requestsOf } from "./http.ts";
import { add, define, type MetricType, type Tags } from "./metrics.ts";
import { onlyKnown, requireRunning, tagsOf, type VuState } from "./vu-state.ts";

// Held to k6's own types, and to the names that the scripts use: importing another one is an error.
type HttpModule = Pick<typeof k6Http, "asyncRequest" | "expectedStatuses" | "setResponseCallback">;
type TimersModule = Pick<typeof k6Timers, "setTimeout">;

/** The k6 modules, for one VU. */
export function modulesFor(state: VuState): Record<string, Record<string, unknown>> {
  return {
    k6: { check: checkFor(state) },
    "k6/execution": { scenario: scenarioOf(state) },
    "k6/http": { default: requestsOf(state) satisfies HttpModule },
    "k6/metrics": metricsFor(state),
    "k6/timers": {
      setTimeout: (callback, delayMs, ...args) => {
        requireRunning(state, "setTimeout()");
        if (typeof delayMs !== "number") throw new Error("setTimeout() needs a delay");
        return Number(setTimeout(callback, delayMs, ...args));
      },
    } satisfies TimersModule,
  };
}

function checkFor(state: VuState): typeof k6.check {
  return (value, sets) => {
    requireRunning(state, "check()");
    const results = Object.entries(sets).map(([name, test]) => {
      if (name.includes("::")) throw new Error(`check "${name}": k6 takes no "::" in a name`);
      const result: unknown = test(value);
      // A promise is true, whatever comes of it.
      if (typeof result !== "boolean") throw new Error(`check "${name}": not true or false`);
      add(state.metrics, "checks", { value: result, tags: { check: name } });
      if (!result) console.error(`check failed: ${name}`);
      return result;
    });
    return results.every(Boolean);
  };
}

type ScenarioFigures = Pick<
  typeof k6Execution.scenario,
  "name" | "executor" | "iterationInTest" | "iterationInInstance"
>;

/** Read anew each time, and not there in setup() and teardown(), as in k6. */
function scenarioOf(state: VuState): ScenarioFigures {
  const current = () => {
    if (state.iteration === undefined) throw new Error("there is no scenario here");
    return state.iteration;
  };
  return onlyKnown("k6/execution scenario", {
    get name() {
      return current().scenario;
    },
    get executor() {
      return current().executor;
    },
    get iterationInTest() {
      return current().inTest;
    },
    get iterationInInstance() {
      return current().inTest;
    },
  });
}

function metricsFor(state: VuState) {
  const metric = (type: MetricType) =>
    class {
      readonly name: string;
      constructor(name: string, isTime = false) {
        if (!state.isInit) throw new Error(`metric "${name}" is defined too late`);
        define(state.metrics, name, { type, contains: isTime ? "time" : "default" });
        this.name = name;
      }
      add(value: unknown, tags: Tags = {}): void {
        requireRunning(state, `${this.name}.add()`);
        add(state.metrics, this.name, { value, tags: { ...tagsOf(state), ...tags } });
      }
    };
  return { Counter: metric("counter"), Gauge: metric("gauge"), Trend: metric("trend") };
}
