import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { dirname, join } from "node:path";
import {
  createContext,
  type Module,
  runInContext,
  SourceTextModule,
  SyntheticModule,
} from "node:vm";

import type { Metrics } from "./metrics.ts";
import { modulesFor } from "./modules.ts";
import type { Iteration, VuState } from "./vu-state.ts";

/** One virtual user. As in k6 it has a JavaScript world of its own, so modules share nothing with those of other VUs. */
export interface Vu {
  id: number;
  /** What the script exports. */
  exports: Record<string, unknown>;
  /**
   * Turns data into the VU's own, as k6 does through JSON. k6 makes a Go map of each object, whose fields come in any
   * order; here they come in the reverse.
   */
  give(data: unknown): unknown;
  setIteration(iteration: Iteration | undefined): void;
}

/**
 * What V8 has and k6's engine has not, by the list of what k6 leaves out of its conformance tests
 * (internal/js/tc39/tc39_test.go). What a browser or Node adds (`URL`, `fetch`, `structuredClone`, `performance`) is not in
 * a world of its own to begin with.
 */
const NOT_IN_K6 = `
  for (const name of ["Atomics", "FinalizationRegistry", "Float16Array", "Intl", "Iterator"]) delete globalThis[name];
  for (const name of ["SharedArrayBuffer", "Temporal", "WeakRef", "WebAssembly"]) delete globalThis[name];
  const iterators = Object.getPrototypeOf(Object.getPrototypeOf([].values()));
  for (const name of Object.getOwnPropertyNames(iterators)) delete iterators[name];
  for (const name of ["try", "withResolvers"]) delete Promise[name];
  for (const name of ["isWellFormed", "toWellFormed"]) delete String.prototype[name];
  delete Object.groupBy;
  delete Map.groupBy;
  delete Array.fromAsync;
  delete RegExp.escape;
`;
/** Syntax that it does not read. Dynamic imports fail here by themselves. */
const NO_SYNTAX_OF_K6 = /\bfor await\b|\basync function\*|\\p\{/;

const PARSE_BACKWARDS = `(json) =>
  JSON.parse(json, (_, value) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).reverse())
      : value,
  )
`;

const sources = new Map<string, string>();

/** @throws what the script throws, or when it imports what k6 would not find. */
export async function startVu(
  script: string,
  { id, env, metrics }: { id: number; env: Record<string, string>; metrics: Metrics },
): Promise<Vu> {
  const state: VuState = {
    id,
    isInit: true,
    iteration: undefined,
    metrics,
    isExpected: (status) => status >= 200 && status < 400,
  };
  const context = createContext({ __VU: id, __ITER: 0, console });
  runInContext(NOT_IN_K6, context);
  const parse = runInContext(PARSE_BACKWARDS, context) as (json: string) => unknown;
  const give = (data: unknown) => (data === undefined ? undefined : parse(JSON.stringify(data)));
  context["__ENV"] = runInContext("Object.freeze", context)(give(env));

  const built = new Map<string, Module>();
  const modules = modulesFor(state);
  const load = (specifier: string, from: string): Module => {
    const path = specifier.startsWith(".") ? join(dirname(from), specifier) : specifier;
    const known = built.get(path);
    if (known !== undefined) return known;
    const module = specifier.startsWith(".")
      ? new SourceTextModule(sourceOf(path), { context, identifier: path })
      : builtIn(specifier);
    built.set(path, module);
    return module;
  };
  const builtIn = (specifier: string): Module => {
    const exported = modules[specifier];
    if (exported === undefined) throw new Error(`the stand-in has no module "${specifier}"`);
    const names = Object.keys(exported);
    const initialize = function (this: SyntheticModule) {
      for (const name of names) this.setExport(name, exported[name]);
    };
    return new SyntheticModule(names, initialize, { context, identifier: specifier });
  };

  const main = new SourceTextModule(sourceOf(script), { context, identifier: script });
  await main.link((specifier, { identifier }) => load(specifier, identifier));
  await main.evaluate();
  state.isInit = false;
  return {
    id,
    exports: main.namespace as Record<string, unknown>,
    give,
    setIteration: (iteration) => {
      state.iteration = iteration;
      context["__ITER"] = iteration?.ofVu ?? 0;
    },
  };
}

function sourceOf(path: string): string {
  // k6 adds no extension.
  if (!path.endsWith(".ts")) throw new Error(`"${path}" has to end in .ts`);
  const source = sources.get(path) ?? stripTypeScriptTypes(readFileSync(path, "utf8"));
  const unread = NO_SYNTAX_OF_K6.exec(source);
  if (unread !== null) throw new Error(`k6 does not read "${unread[0]}", in ${path}`);
  sources.set(path, source);
  return source;
}
