import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";

import { startChild } from "../../scripts/child-process.ts";
import { type Lesson, LESSONS } from "../../scripts/load/lessons.ts";
import { startLessonService } from "../../scripts/load/service.ts";
import { type LocalService, prepareDatabase, ROOT } from "../../scripts/local-service.ts";
import { putStandInOn } from "./k6-on-path.ts";
import { runLesson } from "./run-lesson.ts";
import { startTamperingProxy } from "./tampering-proxy.ts";

// Goal: the scripts that people run with k6 work against the real service, and fail where the safeguard that they watch is
// absent. A stand-in for k6 runs them, for seconds. No speed is asserted: lesson 4 gets a hundred times its limits.

// Services stand side by side, but scripts on the same one take turns: each counts what has changed meanwhile.
const inTurn = { concurrent: false };

let home: string;

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "idempotent-orders-load-test-"));
  await prepareDatabase({ persistTo: join(home, "prepared"), tmpDir: home });
});

afterAll(() => rm(home, { recursive: true, force: true, maxRetries: 5 }));

/** Starts a service for the suite, on a copy of the prepared database, and runs lessons against it. */
function serviceFor(name: string, lesson: Pick<Lesson, "vars" | "entry">) {
  let service: LocalService;
  const directory = () => join(home, name);

  beforeAll(async () => {
    const persistTo = join(directory(), "state");
    await cp(join(home, "prepared"), persistTo, { recursive: true });
    service = await startLessonService(lesson, { persistTo, tmpDir: directory() });
  });

  afterAll(() => service.child.stop());

  return {
    url: () => service.url,
    directory,
    run: (script: string, env: Record<string, string>, { url = service.url } = {}) =>
      runLesson(script, { url, directory: directory(), env: { ...lesson.vars, ...env } }),
  };
}

describe.concurrent("on the service as it is", () => {
  const STORM = { KEYS: "3", VUS: "16" };
  const DAY = { RATE: "30", VUS: "20", DURATION: "2s", KEYS: "10" };
  const service = serviceFor("usual", LESSONS["05"]!);

  test("01: every route of the document keeps its contract", inTurn, async () => {
    const { exitCode, output, failed } = await service.run("01-smoke.ts", {});

    expect(failed).toEqual([]);
    // How many others there are is the script's own threshold, so that a route that is added need be told to it alone.
    expect(output).toMatch(
      /^\d+ distinct keys = 1 orders \+ 1 charges \+ 1 refunds \+ \d+ others$/m,
    );
    expect(exitCode).toBe(0);
  });

  test("02: a storm of duplicates is done once for each key", inTurn, async () => {
    const { exitCode, output, failed } = await service.run("02-duplicate-storm.ts", STORM);

    expect(failed).toEqual([]);
    expect(output).toContain("8 distinct keys = 4 orders + 4 charges + 0 refunds");
    expect(exitCode).toBe(0);
  });

  test("02 again, on the same database, by npm run load and BASE_URL", inTurn, async (context) => {
    const load = startChild(join(ROOT, "scripts/load.ts"), ["02", "--vus", "16", "--keys", "2"], {
      cwd: service.directory(),
      env: {
        PATH: await putStandInOn(service.directory()),
        BASE_URL: service.url(),
        TMPDIR: service.directory(),
      },
    });
    context.onTestFinished(() => load.stop());
    const exitCode = await load.ended;

    expect(load.output()).toContain("6 distinct keys = 3 orders + 3 charges + 0 refunds");
    expect(load.output()).not.toContain("Preparing a fresh database");
    expect(exitCode).toBe(0);
  });

  test("04: mixed traffic keeps its promises, and its books balance", inTurn, async () => {
    const env = { ...DAY, PATIENCE: "100" };
    const { exitCode, output, failed } = await service.run("04-mixed.ts", env);

    expect(failed).toEqual([]);
    expect(output).toMatch(/^\d+ distinct keys = \d+ orders \+ \d+ charges \+ \d+ refunds$/m);
    expect(exitCode).toBe(0);
  });

  test(
    "replays that are not what was stored fail 01, 02 and 04, and slowness fails 04",
    inTurn,
    async () => {
      const proxy = await startTamperingProxy(service.url());
      onTestFinished(proxy.close);
      const tampered = { url: proxy.url };
      const smoke = await service.run("01-smoke.ts", {}, tampered);
      const storm = await service.run("02-duplicate-storm.ts", STORM, tampered);
      const day = await service.run("04-mixed.ts", { ...DAY, PATIENCE: "0.001" }, tampered);

      expect([smoke.exitCode, storm.exitCode, day.exitCode]).toEqual([99, 99, 99]);
      expect(smoke.failed).toEqual(["checks rate==1"]);
      expect(storm.failed).toEqual(["checks rate==1"]);
      const [slow, wrong] = [true, false].map((isSlow) =>
        day.failed.filter((name) => name.includes("p(95)") === isSlow),
      );
      expect(wrong).toEqual(["checks rate==1"]);
      // All that there always are some of: nobody has to be told to wait.
      expect(slow!.filter((name) => !name.includes("in_progress"))).toHaveLength(6);
    },
  );

  test("04 fails where a customer finds nothing to look at", inTurn, async () => {
    const proxy = await startTamperingProxy(service.url(), { silent: "/orders?limit=20" });
    onTestFinished(proxy.close);
    const env = { ...DAY, PATIENCE: "100" };
    const day = await service.run("04-mixed.ts", env, { url: proxy.url });

    expect(day.exitCode).toBe(99);
    expect(day.failed).toContain("exceptions count==0");
  });

  test("05: the control group places duplicates", inTurn, async () => {
    const env = { KEYS: "6", VUS: "10" };
    const { exitCode, output, failed, seen } = await service.run("05-control.ts", env);

    expect(failed).toEqual([]);
    expect(seen("duplicates{endpoint:select-then-insert}", "value")).toBeGreaterThan(0);
    expect(output).toMatch(/^0 distinct keys ≠ \d+ orders \+ 0 charges \+ 0 refunds$/m);
    expect(exitCode).toBe(0);
  });

  test(
    "05: an answer that does not come is unexpected, not the end of the iteration",
    inTurn,
    async () => {
      const proxy = await startTamperingProxy(service.url(), { silent: "/lab/orders/unfenced" });
      onTestFinished(proxy.close);
      const env = { KEYS: "2", VUS: "2" };
      const { failed } = await service.run("05-control.ts", env, { url: proxy.url });

      expect(failed).toContain("answers{was:unexpected} count==0");
      expect(failed).not.toContain("exceptions count==0");
    },
  );

  test("02 fails where each request is an order", inTurn, async () => {
    const env = { KEYS: "2", VUS: "10", TARGET: "/lab/orders/no-key" };
    const { exitCode, failed, seen } = await service.run("02-duplicate-storm.ts", env);

    expect(exitCode).toBe(99);
    // And the hot key's.
    expect(seen("shop_orders", "value")).toBeGreaterThan(3);
    expect(failed).toContain("answers{kind:order,was:fresh} count==2");
    expect(failed).toContain("shop_orders value==3");
    expect(failed).toContain("ledger_unexplained value==0");
  });

  test("05 fails where no duplicates are seen", inTurn, async () => {
    const env = { KEYS: "2", VUS: "1", BURST: "1" };
    const { exitCode, failed } = await service.run("05-control.ts", env);

    expect(exitCode).toBe(99);
    expect(failed).toEqual(["duplicates{endpoint:select-then-insert} value>0"]);
  });
});

describe.concurrent("among clocks that disagree", () => {
  const service = serviceFor("clocks", LESSONS["03"]!);

  test(
    "03: owners are taken over and come back late, and each payment is charged once",
    inTurn,
    async () => {
      const env = { ...LESSONS["03"]!.env, KEYS: "10", VUS: "20" };
      const { exitCode, output, failed, seen } = await service.run("03-takeover.ts", env);

      expect(failed).toEqual([]);
      expect(seen("generation{kind:stalled}", "min")).toBeGreaterThanOrEqual(2);
      expect(seen("ledger_fenced_out", "value")).toBeGreaterThan(0);
      expect(output).toContain("20 distinct keys = 10 orders + 10 charges + 0 refunds");
      expect(exitCode).toBe(0);
    },
  );
});

/** A sweep that found nothing rests for ten seconds, so some windows have ended when it comes again. */
const SHORT = { PROVIDER_TIMEOUT_MS: "500", PENDING_TTL_MS: "3000", RETENTION_MS: "6000" };
const SOAK = { RATE: "4", VUS: "20", DURATION: "14s" };

describe.concurrent("with a short window", () => {
  const service = serviceFor("window", { vars: SHORT });

  test("06: the sweep keeps the ledger small while the load goes on", inTurn, async () => {
    const { exitCode, failed, seen } = await service.run("06-soak.ts", SOAK);

    expect(failed).toEqual([]);
    expect(seen("ledger_rows", "max")).toBeLessThan(seen("ledger_keys", "value"));
    expect(exitCode).toBe(0);
  });
});

describe.concurrent("with safeguards taken out", () => {
  const service = serviceFor("mutant", { vars: SHORT, entry: "test/load/mutant-worker.ts" });

  // First, since its audit is green.
  test("06 fails where nothing is swept", inTurn, async () => {
    const { exitCode, failed } = await service.run("06-soak.ts", SOAK);

    expect(exitCode).toBe(99);
    expect(failed).toEqual(["ledger_evicted value>0"]);
  });

  test(
    "03 fails where the provider is asked under a key of the attempt's own",
    inTurn,
    async () => {
      const env = { KEYS: "4", VUS: "16" };
      const { exitCode, failed, seen } = await service.run("03-takeover.ts", env);

      expect(exitCode).toBe(99);
      expect(seen("provider_charges", "value")).toBeGreaterThan(4);
      expect(failed.toSorted()).toEqual([
        "audit_violations value==0",
        "ledger_unexplained value==0",
        "provider_charged_twice value==0",
        "provider_charges value==4",
      ]);
    },
  );
});
