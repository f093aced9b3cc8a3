// `npm start`: the service on this machine, with the demo accounts in its database. Arguments after `npm start --` go
// to wrangler dev, for example `--port 9000` or `--var PENDING_TTL_MS:20000`.
import { randomUUID } from "node:crypto";
import { createServer } from "node:net";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

import { stopAll, untilInterrupted } from "./child-process.ts";
import {
  LOCAL_OPERATOR_TOKEN,
  type LocalService,
  prepareDatabase,
  startLocalService,
} from "./local-service.ts";

// As in wrangler.toml.
const DEFAULT_IP = "127.0.0.1";
const DEFAULT_PORT = "8787";

// Whoever stops a service has got what they wanted, so that is exit code 0.
const stopped = untilInterrupted().then(() => 0);
const code = await Promise.race([run(process.argv.slice(2)), stopped]).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  return 1;
});
await stopAll();
process.exit(code);

async function run(argv: string[]): Promise<number> {
  const { ip, port, persistTo, rest } = parseArguments(argv);
  await requireFree(ip, port);
  console.log("Preparing the database and the demo accounts ...");
  await prepareDatabase({ persistTo });
  const vars = { SERVER_TIMING: "on", ADMIN_TOKEN: LOCAL_OPERATOR_TOKEN };
  const service = await startLocalService({ ip, port, persistTo, vars, args: rest });
  console.log(welcome(service.url));
  passOn(service);
  const exitCode = await service.child.ended;
  throw new Error(`wrangler dev ended with exit code ${exitCode}.`);
}

/** Takes out what this script must know itself; everything else is for wrangler dev. */
function parseArguments(argv: string[]) {
  const options = {
    ip: { type: "string", default: DEFAULT_IP },
    port: { type: "string", default: DEFAULT_PORT },
    "persist-to": { type: "string" },
  } as const;
  const { values, tokens } = parseArgs({
    args: argv,
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const taken = new Set<number>();
  for (const token of tokens) {
    if (token.kind !== "option" || !(token.name in options)) continue;
    taken.add(token.index);
    if (token.inlineValue === false) taken.add(token.index + 1);
  }
  const port = Number(values.port);
  if (!/^\d+$/.test(String(values.port)) || port > 65_535) {
    throw new Error(`--port ${values.port} is not a port: it must be a number from 0 to 65535.`);
  }
  const persistTo = values["persist-to"];
  return {
    ip: String(values.ip),
    port,
    persistTo: typeof persistTo === "string" ? resolve(persistTo) : undefined,
    rest: argv.filter((_, index) => !taken.has(index)),
  };
}

/**
 * wrangler would find out only after the database is ready, and say it less plainly.
 *
 * @throws when nothing can listen there.
 */
function requireFree(ip: string, port: number): Promise<void> {
  return new Promise((free, refuse) => {
    const probe = createServer();
    probe.once("error", ({ code: reason }: NodeJS.ErrnoException) => {
      const message =
        reason === "EADDRINUSE"
          ? `Port ${port} on ${ip} is taken: stop what uses it, or choose another with npm start -- --port N.`
          : `Cannot listen on ${ip}:${port} (${reason}).`;
      refuse(new Error(message));
    });
    probe.listen(port, ip, () => probe.close(() => free()));
  });
}

/** The Worker's log and what wrangler says while sources change, without its second line for every request. */
function passOn({ child }: LocalService): void {
  for (const stream of [child.process.stdout!, child.process.stderr!]) {
    createInterface({ input: stream }).on("line", (line) => {
      if (!line.startsWith("[wrangler:info]")) console.log(line);
    });
  }
}

/** A fresh key each time, so that the first paste places an order and the second shows the replay. */
function welcome(url: string): string {
  return `
The service is at ${url} (Ctrl-C stops it). Place an order; send it again, and it is not placed twice:

curl -i ${url}/orders \\
  -H 'Authorization: Bearer demo_acme_b3f1c2d4e5a60718' \\
  -H 'Idempotency-Key: ${randomUUID()}' \\
  -H 'Content-Type: application/json' \\
  -d '{"items":[{"product_id":"prod_0192f3a0-0000-7000-8000-000000000001","quantity":2}]}'
`;
}
