import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, onTestFinished, test } from "vitest";

import { prepareDatabase, ROOT, startLocalService } from "../../scripts/local-service.ts";
import { temporaryDirectory } from "./run-script.ts";

// Goal: what the README tells a reader to paste, to copy or to open is so.

const readme = readFileSync(join(ROOT, "README.md"), "utf8");
const blocksOf = (language: string) =>
  [...readme.matchAll(/^```(.*)\n([^]*?)^```$/gm)]
    .filter(([, info]) => info === language)
    .map(([, , text]) => text!);

test("every curl of the README answers what stands below it", async (context) => {
  const persistTo = await temporaryDirectory(context);
  await prepareDatabase({ persistTo });
  const vars = { ADMIN_TOKEN: "local-operator-token" };
  const { url, child } = await startLocalService({ persistTo, vars });
  onTestFinished(() => child.stop());

  const seen = blocksOf("sh curl").map((block) => {
    const command = block.replaceAll("http://127.0.0.1:8787", url);
    const answer = execFileSync("bash", ["-c", command], { encoding: "utf8", stdio: "pipe" });
    const promised = block.split("\n").filter((line) => line.startsWith("# "));
    return promised.map((line) => ({
      line,
      isKept: answer.toLowerCase().includes(line.slice(2).toLowerCase()),
    }));
  });

  expect(seen).toHaveLength(6);
  expect(seen.flat().length).toBe(12);
  expect(seen.flat().filter(({ isKept }) => !isKept)).toEqual([]);
});

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
  const named = [...readme.matchAll(/npm (?:run )?(start|test|demo|check|migration|types)\b/g)];

  expect(named.length).toBeGreaterThan(5);
  expect(named.filter(([, name]) => scripts[name!] === undefined)).toEqual([]);
});
