import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { expect, test } from "vitest";

import { ROOT } from "../../scripts/local-service.ts";

// Goal: what the README tells a reader to copy or to open is so. What it has to be pasted is in docs.test.ts.

const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const readme = read("README.md");
const blocksOf = (language: string) =>
  [...readme.matchAll(/^```(.*)\n([^]*?)^```$/gm)]
    .filter(([, info]) => info === language)
    .map(([, , text]) => text!);

test("the README's own mutation is, but for its place, the one that a test mounts", () => {
  const mounted = read("test/worker/set-price.ts");
  const asInSrc = mounted
    .replaceAll('"../../src/catalog/', '"./')
    .replaceAll('"../../src/', '"../');

  expect(blocksOf("ts")).toContain(asInSrc);
});

test("the README's own caller is the one that a test runs", () => {
  const dedented = (text: string) => text.replaceAll(/^ +/gm, "");
  const [example] = blocksOf("ts client");
  const body = example!.slice(example!.indexOf("const shop"));

  expect(dedented(read("test/worker/client-example.ts"))).toContain(dedented(body));
});

test("every file that the README and docs link to is there", () => {
  const pages = ["README.md", ...globSync("docs/**/*.md", { cwd: ROOT })];
  const linked = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\(([^)#:]+)\)/g)].map(([, path]) => join(dirname(page), path!)),
  );

  expect(linked.length).toBeGreaterThan(100);
  expect(linked.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});

test("every test that docs/coverage.md names is there", () => {
  const named = [...read("docs/coverage.md").matchAll(/“([^”]+)” \(\[[^\]]*\]\(([^)]+)\)\)/g)];

  expect(named.length).toBeGreaterThan(90);
  const isThere = (name: string, path: string) => read(join("docs", path)).includes(name);
  const missing = named.filter(([, name, path]) => !isThere(name!, path!));
  expect(missing.map(([, name]) => name)).toEqual([]);
});

test("every npm script that the README names exists", () => {
  const { scripts } = JSON.parse(read("package.json")) as {
    scripts: Record<string, string>;
  };
  const named = [...readme.matchAll(/npm (?:run ([\w:]+)|(start|test)\b)/g)];

  expect(named.length).toBeGreaterThan(8);
  expect(named.filter(([, run, short]) => scripts[(run ?? short)!] === undefined)).toEqual([]);
});
