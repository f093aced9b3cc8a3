/** The options that the scripts use. k6 only warns of what it does not know; here it is an error. */
export interface Options {
  scenarios: Record<string, Scenario>;
  thresholds: Record<string, string[]>;
}

export type Scenario = { exec: string } & (
  | { executor: "shared-iterations"; vus: number; iterations: number; maxDurationMs: number }
  | { executor: "constant-vus"; vus: number; durationMs: number }
  | {
      executor: "constant-arrival-rate";
      /** Between two arrivals. */
      periodMs: number;
      durationMs: number;
      vus: number;
    }
);

/** k6 refuses less. */
const MIN_DURATION_MS = 1000;
const DEFAULT_MAX_DURATION = "10m";

type Given = Record<string, unknown>;

/** @throws for whatever k6 would refuse, and for whatever the stand-in does not have. */
export function readOptions(given: unknown): Options {
  const options = fieldsOf("options", given, {
    scenarios: "object",
    thresholds: "object",
    "teardownTimeout?": "string",
  });
  if (options["teardownTimeout"] !== undefined)
    durationOf("teardownTimeout", options["teardownTimeout"]);
  const scenarios = Object.entries(options["scenarios"] as Given);
  if (scenarios.length === 0) throw new Error("options.scenarios is empty");
  const thresholds = options["thresholds"] as Record<string, string[]>;
  for (const [name, expressions] of Object.entries(thresholds)) {
    if (!Array.isArray(expressions)) throw new Error(`the thresholds of ${name} are not a list`);
  }
  return {
    scenarios: Object.fromEntries(
      scenarios.map(([name, scenario]) => [name, readScenario(name, scenario)]),
    ),
    thresholds,
  };
}

function readScenario(name: string, given: unknown): Scenario {
  const { executor } = given as { executor?: unknown };
  const common = { executor: "string", "exec?": "string" } as const;
  switch (executor) {
    case "shared-iterations": {
      const { exec = "default", ...fields } = fieldsOf(name, given, {
        ...common,
        vus: "number",
        iterations: "number",
        "maxDuration?": "string",
      });
      const [vus, iterations] = [fields["vus"] as number, fields["iterations"] as number];
      if (iterations < vus) throw new Error(`${name}: fewer iterations than VUs`);
      const maxDurationMs = durationOf(name, fields["maxDuration"] ?? DEFAULT_MAX_DURATION);
      return { executor, exec: exec as string, vus, iterations, maxDurationMs };
    }
    case "constant-vus": {
      const { exec = "default", ...fields } = fieldsOf(name, given, {
        ...common,
        vus: "number",
        duration: "string",
      });
      const durationMs = durationOf(name, fields["duration"]);
      return { executor, exec: exec as string, vus: fields["vus"] as number, durationMs };
    }
    case "constant-arrival-rate": {
      const { exec = "default", ...fields } = fieldsOf(name, given, {
        ...common,
        rate: "number",
        timeUnit: "string",
        duration: "string",
        preAllocatedVUs: "number",
        maxVUs: "number",
      });
      const vus = fields["preAllocatedVUs"] as number;
      if (fields["maxVUs"] !== vus) throw new Error(`${name}: the stand-in adds no VUs later`);
      const periodMs = durationOf(name, fields["timeUnit"]) / (fields["rate"] as number);
      const durationMs = durationOf(name, fields["duration"]);
      return { executor, exec: exec as string, periodMs, durationMs, vus };
    }
    default:
      throw new Error(`${name}: the stand-in has no executor "${String(executor)}"`);
  }
}

/** @throws when a field is missing, has another type, or is not known; a name that ends in `?` may be missing. */
function fieldsOf(what: string, given: unknown, types: Record<string, string>): Given {
  if (typeof given !== "object" || given === null) throw new Error(`${what} is not an object`);
  const fields = given as Given;
  for (const [field, type] of Object.entries(types)) {
    const value = fields[field.replace("?", "")];
    if (value === undefined && field.endsWith("?")) continue;
    if (typeof value !== type) throw new Error(`${what}.${field} must be a ${type}`);
    // Everything that is counted is counted in whole numbers.
    if (type === "number" && !(Number.isInteger(value) && (value as number) > 0)) {
      throw new Error(`${what}.${field} must be a whole number above 0, not ${String(value)}`);
    }
  }
  const unknown = Object.keys(fields).filter(
    (field) => !(field in types) && !(`${field}?` in types),
  );
  if (unknown.length > 0) throw new Error(`${what} has unknown options: ${unknown.join(", ")}`);
  return fields;
}

const UNITS_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** Go's way to write them: `1m30s`. */
function durationOf(what: string, given: unknown): number {
  const parts = [...String(given).matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  if (parts.map(([part]) => part).join("") !== given || given === "") {
    throw new Error(`${what}: "${String(given)}" is not a duration`);
  }
  const ms = parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS_MS[unit!]!, 0);
  if (ms < MIN_DURATION_MS) throw new Error(`${what}: ${given} is shorter than a second`);
  return ms;
}
