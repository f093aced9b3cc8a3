import { expect, test } from "vitest";

import { bindingTo, openDatabase } from "./database.ts";
import { ask, DIALECT } from "./dialect.ts";

test.each(DIALECT)("the explorer's D1: $name", async ({ batch, says }) => {
  const { carryOut } = openDatabase("");
  const d1 = bindingTo(async (statements) => carryOut(statements));
  expect(await ask(d1, batch)).toEqual(says);
});
