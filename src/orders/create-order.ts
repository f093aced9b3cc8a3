import { z } from "@hono/zod-openapi";
import { and, eq, getTableColumns, sql } from "drizzle-orm";

import { moveStock, productIdIsIn } from "../catalog/move-stock.ts";
import { products } from "../catalog/schema.ts";
import type { Database } from "../idempotency/ledger.ts";
import { mutation } from "../idempotency/mutation.ts";
import { refuse } from "../problem.ts";
import { type ProblemCode } from "../problems.ts";
import { Id, keyedRoute } from "../routes.ts";
import { created, text } from "../wire.ts";
import { Order, type OrderItemRow, orderToWire } from "./order.ts";
import { orderItems, orders } from "./schema.ts";

const MAX_ITEMS = 50;
const MAX_QUANTITY = 1_000_000;

const CreateOrderRequest = z
  .strictObject({
    items: z
      .array(z.strictObject({ product_id: Id, quantity: z.int().min(1).max(MAX_QUANTITY) }))
      .min(1)
      .max(MAX_ITEMS)
      .describe("Lines of one product are summed."),
    reference: text(255).optional().describe("Your own name for the order."),
  })
  .openapi("CreateOrderRequest", {
    example: {
      items: [{ product_id: "prod_0192f3a0-0000-7000-8000-000000000001", quantity: 2 }],
      reference: "basket-17",
    },
  });

const createOrderRoute = keyedRoute({
  path: "/orders",
  summary: "Place an order: prices from the catalogue, stock reserved",
  body: CreateOrderRequest,
  status: 201,
  wire: Order,
  problems: ["insufficient_stock", "unknown_product", "mixed_currencies", "order_total_too_large"],
});

export const createOrder = mutation(createOrderRoute, {
  reads: ({ db, principal, body }) => [
    db
      .select()
      .from(products)
      .where(
        and(eq(products.accountId, principal), productIdIsIn([...quantities(body.items).keys()])),
      ),
  ],
  run: ({ db, principal, body, reads: [catalogue], operation, now, requestId }) => {
    const priced = priceItems(quantities(body.items), catalogue);
    if (priced.kind === "refused") return refuse(requestId, priced.problem, priced.members);

    const { currency, total, lines } = priced;
    const { reference = null } = body;
    const id = `ord_${operation.id}`;
    const order = {
      id,
      accountId: principal,
      status: "pending" as const,
      currency,
      total,
      reference,
      createdAt: now,
      updatedAt: now,
    };
    const items = lines.map((line, position) => ({ ...line, orderId: id, position }));
    return {
      kind: "decided",
      response: created(`/orders/${id}`, orderToWire(order, items)),
      writes: [
        db.insert(orders).values(order),
        insertItems(db, items),
        moveStock(db, lines, "reserve"),
      ],
    };
  },
});

type Line = Omit<OrderItemRow, "orderId" | "position">;

/** Total quantity per product, in the order in which the products first appear. */
function quantities(items: readonly { product_id: string; quantity: number }[]) {
  const byProduct = new Map<string, number>();
  for (const { product_id: id, quantity } of items) {
    byProduct.set(id, (byProduct.get(id) ?? 0) + quantity);
  }
  return byProduct;
}

function priceItems(wanted: Map<string, number>, catalogue: (typeof products.$inferSelect)[]) {
  const found = new Map(catalogue.map((product) => [product.id, product]));
  const unknown = [...wanted.keys()].filter((id) => !found.has(id));
  if (unknown.length > 0) return refused("unknown_product", { product_ids: unknown });

  const currencies = [...new Set(catalogue.map((product) => product.currency))];
  if (currencies.length > 1) return refused("mixed_currencies", { currencies });

  const short = catalogue.filter((product) => product.stock < wanted.get(product.id)!);
  if (short.length > 0) {
    const left = short.map(({ id, stock }) => ({ product_id: id, available: stock }));
    return refused("insufficient_stock", { products: left });
  }
  const lines = [...wanted].map(([productId, quantity]): Line => {
    const { name, unitPrice } = found.get(productId)!;
    return { productId, name, unitPrice, quantity };
  });
  // Every subtotal is at most the total, and a sum past 2^53 stays past it, so this one check covers all.
  const total = lines.reduce((sum, line) => sum + line.unitPrice * line.quantity, 0);
  if (!Number.isSafeInteger(total)) return refused("order_total_too_large", {});
  return { kind: "priced" as const, currency: currencies[0]!, total, lines };
}

function refused(problem: ProblemCode, members: Record<string, unknown>) {
  return { kind: "refused" as const, problem, members };
}

function insertItems(db: Database, items: readonly OrderItemRow[]) {
  const columns = Object.keys(getTableColumns(orderItems)).map(
    (name) => sql`value ->> ${`$.${name}`}`,
  );
  return db
    .insert(orderItems)
    .select(sql`SELECT ${sql.join(columns, sql`, `)} FROM json_each(${JSON.stringify(items)})`);
}
