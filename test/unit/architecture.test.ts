import { globSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";

import { type ESTree, parseSync, Visitor } from "vite";
import { expect, test } from "vitest";

// A newcomer reads the source in an hour.
const MAX_FILE_LINES = 250;
const MAX_FUNCTION_LINES = 70;
/** Where bindings are read; everything else takes what it needs as an argument or from `c.var`. */
const READS_BINDINGS = new Set([
  "src/env.ts",
  "src/index.ts",
  "src/payments/provider.ts",
  "src/principal.ts",
  "src/scope.ts",
]);

const root = join(import.meta.dirname, "../..");
const files = globSync("src/**/*.*", { cwd: root }).map((path) => ({
  path,
  text: readFileSync(join(root, path), "utf8"),
}));
const modules = files.filter(({ path }) => path.endsWith(".ts")).map(survey);

/** What one module does that the rules below are about. */
function survey({ path, text }: { path: string; text: string }) {
  const imports: string[] = [];
  const reExports: string[] = [];
  const calls: string[] = [];
  const bindingReads: string[] = [];
  const functionLines: number[] = [];
  const imported = new Set<string>();

  const source = ({ start, end }: ESTree.Span) => text.slice(start, end);
  const lastName = (node: ESTree.Span) => /(\w+)["'`]?\]?$/.exec(source(node))?.[1] ?? "";
  const measure = (node: ESTree.Span) => functionLines.push(source(node).split("\n").length);
  const { program, errors } = parseSync(path, text);
  new Visitor({
    ImportDeclaration(node) {
      imports.push(node.source.value);
      for (const specifier of node.specifiers) {
        imported.add(specifier.local.name);
        const isEnv =
          node.source.value === "cloudflare:workers" && /^env\b|\*/.test(source(specifier));
        if (isEnv) bindingReads.push(source(node));
      }
    },
    ExportNamedDeclaration(node) {
      if (node.source !== null) imports.push(node.source.value);
      const handedOn = node.specifiers.filter(
        ({ local }) => node.source !== null || imported.has(source(local)),
      );
      reExports.push(...handedOn.map(source));
    },
    ExportAllDeclaration(node) {
      imports.push(node.source.value);
      reExports.push(source(node));
    },
    ImportExpression: (node) => imports.push(source(node.source).slice(1, -1)),
    TSImportType: (node) => imports.push(node.source.value),
    CallExpression: (node) => calls.push(lastName(node.callee)),
    MemberExpression(node) {
      const isRead = lastName(node) === "env" || lastName(node.object) === "env";
      if (isRead) bindingReads.push(source(node));
    },
    ObjectPattern(node) {
      if (/\{(.*,)?\s*env\b/s.test(source(node))) bindingReads.push(source(node));
    },
    FunctionDeclaration: measure,
    FunctionExpression: measure,
    ArrowFunctionExpression: measure,
  }).visit(program);
  return { path, errors, imports, reExports, calls, bindingReads, functionLines };
}

const pathsWhere = (matches: (module: (typeof modules)[number]) => boolean) =>
  modules.filter(matches).map(({ path }) => path);

test("the survey sees every way to import, to hand on, to call and to read a binding", () => {
  const text = `
    import { env, DurableObject } from "cloudflare:workers";
    import type { A } from "./a.ts";
    import "./b.ts";
    export * from "./c.ts";
    export { D as E } from "./d.ts";
    export { A };
    const f = await import("./f.ts");
    type G = import("./g.ts").G;
    db.transaction(f);
    db["transaction"](() => {
      c.env.DB;
    });
    const { var: v, env: { DB } } = c;
    // import "./not.ts"; db.transaction(); c.env.DB
  `;
  const seen = survey({ path: "sample.ts", text });
  expect(seen.errors).toEqual([]);
  expect(seen.imports.toSorted()).toEqual([
    "./a.ts",
    "./b.ts",
    "./c.ts",
    "./d.ts",
    "./f.ts",
    "./g.ts",
    "cloudflare:workers",
  ]);
  expect(seen.reExports).toEqual(['export * from "./c.ts";', "D as E", "A"]);
  expect(seen.calls).toEqual(["transaction", "transaction"]);
  expect(seen.bindingReads).toEqual([
    'import { env, DurableObject } from "cloudflare:workers";',
    "c.env.DB",
    "c.env",
    "{ var: v, env: { DB } }",
  ]);
  expect(seen.functionLines).toEqual([3]);
});

test("every source file is there and can be read", () => {
  expect(modules.length).toBeGreaterThan(20);
  expect(pathsWhere(({ path }) => path.startsWith("src/idempotency/")).length).toBeGreaterThan(5);
  expect(pathsWhere(({ errors }) => errors.length > 0)).toEqual([]);
});

test("the ledger imports nothing but itself and packages: it can be lifted out whole", () => {
  const { dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    dependencies: Record<string, string>;
  };
  const isPackage = (name: string) =>
    Object.keys(dependencies).some((known) => name === known || name.startsWith(`${known}/`));
  const isItsOwn = (name: string) =>
    name.startsWith(".") && posix.join("src/idempotency", name).startsWith("src/idempotency/");
  const outside = modules
    .filter(({ path }) => path.startsWith("src/idempotency/"))
    .flatMap(({ path, imports }) => imports.map((name) => ({ path, name })))
    .filter(({ name }) => !isPackage(name) && !isItsOwn(name));
  expect(outside).toEqual([]);
});

test("the product does not know its lab: only the table of contents mounts it, so it can be taken out whole", () => {
  const isOfLab = (path: string) => path.startsWith("src/lab/");
  const importers = modules.filter(
    ({ path, imports }) =>
      !isOfLab(path) && imports.some((name) => isOfLab(posix.join(posix.dirname(path), name))),
  );
  expect(pathsWhere(({ path }) => isOfLab(path)).length).toBeGreaterThan(4);
  expect(importers.map(({ path }) => path)).toEqual(["src/app.ts"]);
});

test("nothing is handed on: what a module exports is its own, and only the Worker's entry is an index", () => {
  expect(pathsWhere(({ path }) => posix.basename(path) === "index.ts")).toEqual(["src/index.ts"]);
  const handedOn = modules.filter(({ path }) => path !== "src/index.ts");
  expect(handedOn.filter(({ reExports }) => reExports.length > 0)).toEqual([]);
});

test(`no file is longer than ${MAX_FILE_LINES} lines`, () => {
  const lengths = files.map(({ path, text }) => ({
    path,
    lines: text.trimEnd().split("\n").length,
  }));
  expect(lengths.filter(({ lines }) => lines > MAX_FILE_LINES)).toEqual([]);
});

test(`no function is longer than ${MAX_FUNCTION_LINES} lines`, () => {
  const isLong = (lines: number) => lines > MAX_FUNCTION_LINES;
  expect(pathsWhere(({ functionLines }) => functionLines.some(isLong))).toEqual([]);
});

// D1 has no interactive transactions: `db.transaction()` compiles, and fails when it is called.
test("batch() is the only transaction: nothing calls transaction()", () => {
  expect(pathsWhere(({ calls }) => calls.includes("transaction"))).toEqual([]);
});

test("bindings are read in few places, so that everything else can be tested without a Worker", () => {
  const readers = pathsWhere(({ bindingReads }) => bindingReads.length > 0);
  expect(readers.filter((path) => !READS_BINDINGS.has(path))).toEqual([]);
});

test("of the bindings, the one that authentication reads is the rate limiter", () => {
  const { bindingReads } = modules.find(({ path }) => path === "src/principal.ts")!;
  const named = bindingReads.filter((read) => read !== "c.env");
  expect(named).toEqual(["c.env.RATE_LIMITER"]);
});
