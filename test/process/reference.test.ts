import { expect, onTestFinished, test } from "vitest";

import { prepareDatabase, startLocalService } from "../../scripts/local-service.ts";
import { send } from "./http.ts";
import { temporaryDirectory } from "./run-script.ts";

test("GET /docs shows the API reference from this service alone", async (context) => {
  // Goal: the reference works where there is no network, and asks nobody else for anything.
  const persistTo = await temporaryDirectory(context);
  await prepareDatabase({ persistTo });
  const { url, child } = await startLocalService({ persistTo });
  onTestFinished(() => child.stop());

  const moved = await send(`${url}/docs`);
  const page = await send(`${url}/docs/`);
  const files = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, file]) => file!);
  const own = files.filter((file) => !file.startsWith("data:"));
  const answers = await Promise.all(own.map((file) => send(`${url}${file}`)));

  expect([moved.status, moved.headers.location]).toEqual([307, "/docs/"]);
  expect(page.headers["content-type"]).toBe("text/html; charset=utf-8");
  expect(own).toEqual(["/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js", "/docs/reference.js"]);
  expect(answers.map(({ status, headers }) => `${status} ${headers["content-type"]}`)).toEqual([
    "200 text/css; charset=utf-8",
    "200 text/javascript; charset=utf-8",
    "200 text/javascript; charset=utf-8",
  ]);
  // Whatever these files would ask for, a browser lets them ask this service only.
  const policy = String(page.headers["content-security-policy"]);
  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toMatch(/https?:|\*/);
  // And everything else is still the Worker's.
  expect((await send(`${url}/docs-not`)).json["error"]).toBe("not_found");
});
