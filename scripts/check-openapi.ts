import { createConfig, lintFromString } from "@redocly/openapi-core";

import { createApp } from "../src/app.ts";

// Lints the OpenAPI document that the service answers, by the recommended rules; warnings count. Exit code 1 if it finds any.
const RULES = {
  // What a health check could refuse, it would not be asked by.
  "operation-4xx-response": "off",
} as const;

const { info } = console;
// The product logs the request.
console.info = () => {};
const ports = { now: Date.now, newId: () => crypto.randomUUID(), sleep: async () => {} };
const response = await createApp(ports).request("https://orders.test/openapi.json", {}, {});
console.info = info;

const problems = await lintFromString({
  source: await response.text(),
  config: await createConfig({ extends: ["recommended-strict"], rules: RULES }),
});
for (const { ruleId, message, location } of problems) {
  console.error(`${ruleId}: ${message} (${location[0]?.pointer})`);
}
console.log(
  problems.length === 0 ? "The OpenAPI document is clean." : `${problems.length} problems`,
);
process.exitCode = problems.length === 0 ? 0 : 1;
