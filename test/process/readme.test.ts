import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { ROOT } from "../../scripts/local-service.ts";

// Goal: what the README tells a reader to copy or to open is so. What it has to be pasted is in docs.test.ts, where its
// links lead to is in ../unit/docs.test.ts.

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

test("every npm script that the README names exists", () => {
  const { scripts } = JSON.parse(read("package.json")) as {
    scripts: Record<string, string>;
  };
  const named = [...readme.matchAll(/npm (?:run ([\w:]+)|(start|test)\b)/g)];

  expect(named.length).toBeGreaterThan(8);
  expect(named.filter(([, run, short]) => scripts[(run ?? short)!] === undefined)).toEqual([]);
});
