// Run by wrangler before it serves or deploys ([build] in wrangler.toml): puts the API reference's viewer, which is npm's to
// keep and not ours, beside the page that shows it. Plain JavaScript, for whichever Node is there.
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
const files = [
  require.resolve("swagger-ui-dist/swagger-ui.css"),
  require.resolve("swagger-ui-dist/swagger-ui-bundle.js"),
];
for (const from of files) {
  const to = fileURLToPath(new URL(`../public/docs/${basename(from)}`, import.meta.url));
  const contents = readFileSync(from);
  // A service that is running watches the directory: what is right there already is left alone, and what is not appears
  // whole.
  if (existsSync(to) && readFileSync(to).equals(contents)) continue;
  const draft = `${to}.${process.pid}`;
  writeFileSync(draft, contents);
  renameSync(draft, to);
}
