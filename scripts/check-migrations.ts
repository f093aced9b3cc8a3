// Fails when the schema in src/ has changed and no migration says so: `npm run migration` writes one.
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

// drizzle-kit takes the output folder relative to the project only.
const copy = mkdtempSync(".drizzle-check-");
try {
  cpSync("drizzle", copy, { recursive: true });
  const kit = join("node_modules", "drizzle-kit", "bin.cjs");
  const flags = ["--dialect", "sqlite", "--schema", "./src/*/schema.ts", "--out", `./${copy}`];
  execFileSync(process.execPath, [kit, "generate", ...flags], { stdio: "pipe" });
  const added = readdirSync(copy).filter((name) => !readdirSync("drizzle").includes(name));
  if (added.length > 0) {
    console.error("The schema has changed without a migration. Run: npm run migration");
    process.exitCode = 1;
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
