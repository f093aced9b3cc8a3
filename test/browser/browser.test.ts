import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

import { type Browser, chromium } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";

import {
  type LocalService,
  prepareDatabase,
  startLocalService,
} from "../../scripts/local-service.ts";
import type { createClient } from "../../src/client/client.ts";
import { send } from "../process/http.ts";
import { bundledClient } from "../unit/bundled-client.ts";

// What only a browser can say, of one service.

/** The first browser on the PATH. `.ci/run` sees to it that there is one, and there the tests are never skipped. */
const executablePath = ["chromium", "google-chrome"]
  .flatMap((name) => process.env["PATH"]!.split(delimiter).map((folder) => join(folder, name)))
  .find((path) => existsSync(path));
const isToBeSkipped = executablePath === undefined && process.env["CI"] === undefined;

let directory: string;
let service: LocalService;
let browser: Browser;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "idempotent-orders-test-"));
  const place = { persistTo: join(directory, "state"), tmpDir: directory };
  await prepareDatabase(place);
  service = await startLocalService(place);
  // Chromium's sandbox needs rights that a container does not give; the pages are our own.
  browser = await chromium.launch({ executablePath: executablePath!, args: ["--no-sandbox"] });
});

afterAll(async () => {
  await service.child.stop();
  await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  await browser.close();
});

test.skipIf(isToBeSkipped)(
  "GET /docs shows every operation in a browser, which asks nobody else",
  async () => {
    const { paths } = (await send(`${service.url}/openapi.json`)).json as {
      paths: Record<string, Record<string, unknown>>;
    };
    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const page = await browser.newPage();
    const asked: string[] = [];
    const complaints: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    page.on("console", (message) => {
      if (message.type() === "error") complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(error.message));

    await page.goto(`${service.url}/docs`);
    await page
      .locator(".opblock")
      .nth(operations.length - 1)
      .waitFor();
    const shown = await page.locator(".opblock-summary").evaluateAll((blocks) =>
      blocks.map((block) => {
        const method = block.querySelector(".opblock-summary-method")!.textContent;
        const path = block.querySelector(".opblock-summary-path")!.getAttribute("data-path");
        return `${method} ${path}`;
      }),
    );
    await page.locator("#operations-orders-postOrders .opblock-summary").click();
    await page.locator("#operations-orders-postOrders .responses-inner").waitFor();
    const placing = await page.locator("#operations-orders-postOrders").textContent();

    expect(shown.toSorted()).toEqual(operations.toSorted());
    expect(placing).toContain("idempotency_key_in_progress (a retry can help)");
    expect(placing).toContain("insufficient_stock (final)");
    expect(complaints).toEqual([]);
    expect(
      asked.filter(
        (address) => !address.startsWith(`${service.url}/`) && !address.startsWith("data:"),
      ),
    ).toEqual([]);
  },
);

declare const client: { createClient: typeof createClient };

/** A page with the client in it, of another origin than the service's, and a redirect to the service. */
async function servePage(serviceUrl: string): Promise<string> {
  const { code } = await bundledClient();
  const server = createServer(({ url }, response) => {
    if (url === "/") response.end(`<!doctype html><script>${code}</script>`);
    else response.writeHead(307, { location: `${serviceUrl}${url}` }).end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test.skipIf(isToBeSkipped)(
  "in a browser, on a page of another origin, an order whose answer is lost is placed once",
  async () => {
    const pageUrl = await servePage(service.url);
    const page = await browser.newPage();
    await page.goto(pageUrl);

    const seen = await page.evaluate(
      async ({ baseUrl, redirectingUrl }) => {
        const items = [{ product_id: "prod_0192f3a0-0000-7000-8000-000000000001", quantity: 1 }];
        const apiKey = "demo_acme_b3f1c2d4e5a60718";
        let tries = 0;
        const shop = client.createClient({
          baseUrl,
          apiKey,
          fetch: async (request) => {
            const response = await fetch(request);
            tries += 1;
            if (tries === 1) throw new TypeError("Failed to fetch");
            return response;
          },
        });
        const placed = await shop.operation((api) => api.orders.$post({ json: { items } })).send();
        const redirected = await client
          .createClient({ baseUrl: redirectingUrl, apiKey })
          .operation((api) => api.orders.$post({ json: { items } }))
          .send();
        const found = await shop.read((api) => api.orders.$get());
        return { placed, found, redirected, tries };
      },
      { baseUrl: service.url, redirectingUrl: pageUrl },
    );

    expect(seen.tries).toBe(3);
    expect(seen.placed).toMatchObject({ kind: "done", isReplayed: true });
    const { body: order } = seen.placed as Extract<typeof seen.placed, { kind: "done" }>;
    expect(seen.found).toEqual({
      kind: "done",
      isReplayed: false,
      body: { data: [order], has_more: false },
    });
    expect(seen.redirected).toMatchObject({
      kind: "outcome_unknown",
      cause: { kind: "foreign", status: 0 },
    });
  },
);
