import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { ROOT } from "../../scripts/local-service.ts";

// Goal: what the README tells a reader to copy or to open is so. What it has to be pasted is in docs.test.ts.

const readme = readFileSync(join(ROOT, "README.md"), "utf8");
const blocksOf = (language: string) =>
  [...readme.matchAll(/^```(.*)\n([^]*?)^```$/gm)]
    .filter(([, info]) => info === language)
    .map(([, , text]) => text!);

test("the README's own mutation is, but for its place, the one that a test mounts", () => {
  const mounted = readFileSync(join(ROOT, "test/worker/set-price.ts"), "utf8");
  const asInSrc = mounted
    .replaceAll('"../../src/catalog/', '"./')
    .replaceAll('"../../src/', '"../');

  expect(blocksOf("ts")).toContain(asInSrc);
});

test("every file that the README and docs link to is there", () => {
  const cases = readFileSync(join(ROOT, "docs/cases.md"), "utf8");
  const targets = (text: string) => [...text.matchAll(/\]\(([^)#:]+)\)/g)].map(([, path]) => path!);
  const linked = [
    ...targets(readme).map((path) => join(ROOT, path)),
    ...targets(cases).map((path) => join(ROOT, "docs", path)),
  ];

  expect(linked.length).toBeGreaterThan(20);
  expect(linked.filter((path) => !existsSync(path))).toEqual([]);
});

test("every npm script that the README names exists", () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    scripts: Record<string, string>;
  };
  const named = [...readme.matchAll(/npm (?:run ([\w:]+)|(start|test)\b)/g)];

  expect(named.length).toBeGreaterThan(8);
  expect(named.filter(([, run, short]) => scripts[(run ?? short)!] === undefined)).toEqual([]);
});
