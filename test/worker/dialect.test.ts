import { env } from "cloudflare:workers";
import { expect, test } from "vitest";

import { ask, DIALECT } from "../explorer/dialect.ts";

test.each(DIALECT)("D1: $name", async ({ batch, says }) => {
  expect(await ask(env.DB, batch)).toEqual(says);
});
