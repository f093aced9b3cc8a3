import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { expect, test } from "vitest";

import { ROOT } from "../../scripts/local-service.ts";
import { expectNoProcessLeft, temporaryDirectory } from "./run-script.ts";

// Goal: whoever is ended before what it started has begun to look leaves nothing behind all the same.

test.concurrent("a script whose shell npm ended while it was booting does not start the service", async (context) => {
  const directory = await temporaryDirectory(context);
  // What npm starts, when npm ends its shell at once: the script begins once the shell is gone.
  const script = `(while kill -0 $$ 2> /dev/null; do sleep 0.01; done; echo begun; exec "$0" "$@") &`;
  const service = ["scripts/start.ts", "--port", "0", "--persist-to", join(directory, "state")];
  const shell = spawn("sh", ["-c", script, process.execPath, ...service], {
    cwd: ROOT,
    env: { ...process.env, TMPDIR: directory, npm_lifecycle_event: "start" },
    stdio: ["ignore", "pipe", "ignore"],
    detached: true,
  });
  context.onTestFinished(() => endGroup(shell));
  let printed = "";
  shell.stdout.setEncoding("utf8").on("data", (chunk: string) => (printed += chunk));

  // Its output is closed once the script has ended, too.
  await once(shell, "close");

  expect(printed).toMatch(/^begun\n/);
  expect(printed).not.toContain("The service is at");
  await expectNoProcessLeft({ tmpDir: directory });
});

test.concurrent("a child whose parent is killed while it is booting ends by itself", async (context) => {
  const directory = await temporaryDirectory(context);
  const [parent, child] = [join(directory, "parent.ts"), join(directory, "child.js")];
  await writeFile(child, "setTimeout(() => {}, 300_000);");
  const library = join(ROOT, "scripts/child-process.ts");
  await writeFile(
    parent,
    `import { startChild } from ${JSON.stringify(library)};
    startChild(${JSON.stringify(child)}, [], { cwd: ${JSON.stringify(directory)}, env: {} });
    process.kill(process.pid, "SIGKILL");`,
  );
  const env = { ...process.env, TMPDIR: directory };
  const killed = spawn(process.execPath, [parent], { env, stdio: "ignore" });
  const [, signal] = await once(killed, "exit");

  await expectNoProcessLeft({ tmpDir: directory });

  expect(signal).toBe("SIGKILL");
});

function endGroup({ pid }: ChildProcess): void {
  try {
    process.kill(-pid!, "SIGTERM");
  } catch {
    // Nobody is left, which is what was wanted.
  }
}
