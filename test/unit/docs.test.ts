import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";

import { expect, test } from "vitest";

// Goal: where the pages point to, there is something, and what they say is proved names its proof.

const ROOT = join(import.meta.dirname, "../..");
const PAGES = ["README.md", ...globSync("docs/**/*.md", { cwd: ROOT })];
const PAGES_OF_TESTS = ["docs/coverage.md", "docs/cases.md"];

test("every relative link leads to a file, and its anchor to a heading there", () => {
  const links = PAGES.flatMap((page) => linksOf(page).map((link) => ({ page, link })));
  const dead = links.filter(({ page, link }) => !isAlive(page, link));

  expect(links.length).toBeGreaterThan(100);
  expect(links.filter(({ link }) => link.includes("#"))).not.toEqual([]);
  expect(dead).toEqual([]);
});

test.each(PAGES_OF_TESTS)("every test that %s quotes is in the file beside it", (page) => {
  const quoted = quotesOf(read(page));
  const wrong = quoted.filter(({ name, path }) => !testsOf(join(dirname(page), path)).has(name));

  expect(quoted.length).toBeGreaterThan(30);
  // A quotation without its link would be checked by nobody.
  expect(quoted).toHaveLength(read(page).split("“").length - 1);
  expect(wrong).toEqual([]);
});

test.each(PAGES_OF_TESTS)("every row of %s quotes a test, or says that there is none", (page) => {
  const rows = rowsOf(page);

  expect(rows.length).toBeGreaterThan(20);
  expect(rows.filter((row) => !row.includes("“") && !row.includes("No test:"))).toEqual([]);
});

test("every row of docs/coverage.md names the layers of its tests, and no other", () => {
  const rows = rowsOf("docs/coverage.md").map((row) => ({
    row,
    said: row.slice(row.lastIndexOf(" | ") + 3, -2),
    quoted: new Set(quotesOf(row).map(({ path }) => path.split("/")[2]!)),
  }));
  const inOrder = (layers: string) => layers.split(", ").toSorted().join(", ");
  const wrong = rows.filter(
    ({ said, quoted }) => inOrder(said) !== ([...quoted].toSorted().join(", ") || "–"),
  );

  expect(wrong).toEqual([]);
});

test("the check of names takes whole names of tests that run, and nothing else", () => {
  const source = `test("one", () => {}); test.each([1])("two %i", async (n) => {});
    test.skip("three", () => {}); spawn("four", ["five"]); // test "six"
    test(\`seven \${N}\`, { timeout: 1 }, () => {}); test("say \\"eight\\"", () => {});
    test("nine", options, async () => {}); call("ten", options, more);`;

  expect([...namesIn(source)]).toEqual(["one", "two %i", "seven ${N}", 'say "eight"', "nine"]);
});

function read(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** The relative links of a page, outside of its code. */
function linksOf(page: string): string[] {
  const prose = read(page).replaceAll(/^```[^]*?^```$/gm, "");
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link!);
  return links.filter((link) => !/^[a-z]+:/.test(link));
}

function isAlive(page: string, link: string): boolean {
  const [path, anchor] = link.split("#");
  const target = path === "" ? page : join(dirname(page), path!);
  if (!existsSync(join(ROOT, target))) return false;
  if (anchor === undefined) return true;
  return extname(target) === ".md" && anchorsOf(read(target)).has(anchor);
}

/** As GitHub makes them: lower case, spaces to hyphens, no punctuation. */
function anchorsOf(text: string): Set<string> {
  const headings = text.replaceAll(/^```[^]*?^```$/gm, "").matchAll(/^#+ (.+)$/gm);
  const slug = (heading: string) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-");
  return new Set([...headings].map(([, heading]) => slug(heading!)));
}

function quotesOf(text: string): { name: string; path: string }[] {
  const quotes = text.matchAll(/“([^”]+)” \(\[[^\]]*\]\(([^)]+)\)\)/g);
  return [...quotes].map(([, name, path]) => ({ name: name!, path: path! }));
}

/** The rows of the tables, without their heads. Of coverage.md also without the table of the layers. */
function rowsOf(page: string): string[] {
  const tables = read(page).matchAll(/^\| .*\| (?:test|layer) \|\n\|[-|]+\|\n((?:\|.*\n)+)/gm);
  return [...tables].flatMap(([, rows]) => rows!.trim().split("\n"));
}

function testsOf(path: string): Set<string> {
  return existsSync(join(ROOT, path)) ? namesIn(read(path)) : new Set();
}

/** The names of the tests in a source, those of a test.each as the pattern that is written there. */
function namesIn(source: string): Set<string> {
  const call =
    /(?:\btest(?:\.concurrent)?|\))\(\s*(["`])((?:\\.|(?!\1)[^\\])*)\1,\s*(?:\w+,\s*)?(?=\{|async\b|\()/g;
  return new Set([...source.matchAll(call)].map(([, , name]) => name!.replaceAll(/\\(.)/g, "$1")));
}
