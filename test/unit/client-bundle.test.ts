import { relative } from "node:path";
import { createContext, runInContext } from "node:vm";

import { expect, test } from "vitest";

import type { createClient } from "../../src/client/client.ts";
import { bundledClient, root } from "./bundled-client.ts";

test("the client takes types only from the service: a bundle holds nothing of its code", async () => {
  const { imports, dynamicImports, modules } = await bundledClient();
  const files = Object.keys(modules).map((id) => relative(root, id));
  const own = files.filter((file) => !file.startsWith("node_modules/"));
  const packages = files.flatMap((file) => /^node_modules\/([^/]+)/.exec(file)?.[1] ?? []);

  expect([...imports, ...dynamicImports]).toEqual([]);
  expect(own.toSorted()).toEqual(
    ["answer", "client", "draft", "send"].map((name) => `src/client/${name}.ts`),
  );
  expect([...new Set(packages)].toSorted()).toEqual(["hono", "ky", "uuidv7"]);
});

test("it runs with what a browser, Node and a Worker have in common, and nothing else", async () => {
  const { code } = await bundledClient();
  const web = { AbortController, AbortSignal, Headers, Request, Response, URL, URLSearchParams };
  const more = { TextDecoder, TextEncoder, clearTimeout, crypto, performance, setTimeout };
  const page = createContext({ ...web, ...more });
  runInContext(code, page);
  const { client } = page as { client: { createClient: typeof createClient } };

  const statuses = [503, 201];
  const keys: (string | null)[] = [];
  const shop = client.createClient({
    baseUrl: "http://shop.test",
    apiKey: "k",
    firstBackoffMs: 0,
    fetch: async ({ headers }) => {
      keys.push(headers.get("idempotency-key"));
      const init = { status: statuses.shift()!, headers: { "idempotent-replayed": "false" } };
      return Response.json({ id: "ord_1" }, init);
    },
  });
  const placing = shop.operation((api) => api.orders.$post({ json: { items: [] } }));

  expect(await placing.send()).toEqual({
    kind: "done",
    body: { id: "ord_1" },
    isReplayed: false,
  });
  expect(keys).toEqual([placing.key, placing.key]);
});
