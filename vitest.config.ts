import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";

const migrations = await readD1Migrations("drizzle");

export default defineConfig({
  // Below it are hundreds of warnings that the stripe package ships source maps without their sources.
  logLevel: "error",
  test: {
    // The default leaves one core idle, and most of a process test is waiting.
    maxWorkers: 3,
    projects: [
      {
        // Pure code, every interleaving of it, and the real service as a process of its own.
        test: {
          name: "node",
          include: ["test/{unit,explorer,process,browser,load}/**/*.test.ts"],
          // The stand-in for k6 gives each of its virtual users a world of its own.
          execArgv: ["--experimental-vm-modules", "--disable-warning=ExperimentalWarning"],
          // Only what hangs is to be stopped: on a busy machine the slowest takes several times its minute.
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
      {
        // workerd with a real local D1. Storage is isolated per file, not per test.
        plugins: [
          cloudflareTest({
            wrangler: { configPath: "wrangler.toml" },
            miniflare: {
              // MODEL_RUNS: how many sequences of commands test/worker/model.test.ts tries.
              bindings: {
                TEST_MIGRATIONS: migrations,
                MODEL_RUNS: process.env["MODEL_RUNS"] ?? "",
              },
            },
          }),
        ],
        test: {
          name: "worker",
          include: ["test/worker/**/*.test.ts"],
          setupFiles: ["test/worker/setup.ts"],
          testTimeout: 120_000,
        },
      },
    ],
  },
});
