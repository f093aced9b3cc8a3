import { z } from "@hono/zod-openapi";
import { and, eq } from "drizzle-orm";

import { products } from "../../src/catalog/schema.ts";
import { mutation } from "../../src/idempotency/mutation.ts";
import { refuse } from "../../src/problem.ts";
import { ById, keyedRoute } from "../../src/routes.ts";
import { Money, ok } from "../../src/wire.ts";

const SetPriceRequest = z
  .strictObject({ unit_price: Money })
  .openapi("SetPriceRequest", { example: { unit_price: 950 } });

const setPriceRoute = keyedRoute({
  path: "/products/{id}/price",
  summary: "Change a product's price",
  params: ById,
  body: SetPriceRequest,
  status: 200,
  wire: z.object({ id: z.string(), unit_price: Money }),
  problems: [],
});

export const setPrice = mutation(setPriceRoute, {
  // Rides along with the claim: no round trip of its own.
  reads: ({ db, principal, params }) => [
    db
      .select({ id: products.id })
      .from(products)
      .where(and(eq(products.accountId, principal), eq(products.id, params.id))),
  ],
  // Decides, and returns what to write. The ledger commits it together with the response, or not at all.
  run: ({ db, body, params, reads: [found], requestId }) => {
    if (found.length === 0) return refuse(requestId, "not_found");

    const unitPrice = body.unit_price;
    return {
      kind: "decided",
      response: ok({ id: params.id, unit_price: unitPrice }),
      writes: [db.update(products).set({ unitPrice }).where(eq(products.id, params.id))],
    };
  },
});
