import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

import { chromium } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";

import { prepareDatabase, startLocalService } from "../../scripts/local-service.ts";
import { send } from "../process/http.ts";
import { temporaryDirectory } from "../process/run-script.ts";

/** The first browser on the PATH. `.ci/run` sees to it that there is one, and there the test is never skipped. */
const executablePath = ["chromium", "google-chrome"]
  .flatMap((name) => process.env["PATH"]!.split(delimiter).map((folder) => join(folder, name)))
  .find((path) => existsSync(path));

test.skipIf(executablePath === undefined && process.env["CI"] === undefined)(
  "GET /docs shows every operation in a browser, which asks nobody else",
  async (context) => {
    const persistTo = await temporaryDirectory(context);
    await prepareDatabase({ persistTo });
    const { url, child } = await startLocalService({ persistTo });
    onTestFinished(() => child.stop());
    const { paths } = (await send(`${url}/openapi.json`)).json as {
      paths: Record<string, Record<string, unknown>>;
    };
    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    // Chromium's sandbox needs rights that a container does not give; the page is our own.
    const browser = await chromium.launch({
      executablePath: executablePath!,
      args: ["--no-sandbox"],
    });
    onTestFinished(() => browser.close());
    const page = await browser.newPage();
    const asked: string[] = [];
    const complaints: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    page.on("console", (message) => {
      if (message.type() === "error") complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(error.message));

    await page.goto(`${url}/docs`);
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
      asked.filter((address) => !address.startsWith(`${url}/`) && !address.startsWith("data:")),
    ).toEqual([]);
  },
);
