import { type RouteHandler, z } from "@hono/zod-openapi";
import { sql, type SQL } from "drizzle-orm";

import type { Database } from "../idempotency/ledger.ts";
import { booksOf } from "../payments/provider.ts";
import type { StripeSandbox } from "../payments/sandbox/sandbox.ts";
import type { AppEnv } from "../scope.ts";
import { operatorRoute } from "./operator.ts";

/** Most offenders that a check names. */
const MAX_IDS = 10;
/** Charges per page of the provider's books, and the most pages that are read. */
const PAGE_SIZE = 1_000;
const MAX_PAGES = 100;

const Check = z.object({
  name: z.string(),
  guarantee: z.int().describe("Its number in docs/protocol.md."),
  claim: z.string().describe("What must hold."),
  violations: z.int(),
  ids: z.array(z.string()).describe(`Up to ${MAX_IDS} offenders.`),
});

export const auditRoute = operatorRoute({
  path: "/admin/audit",
  summary: "Check every guarantee that the database and the provider can show",
  wire: z.object({ ok: z.boolean(), checks: z.array(Check) }).openapi("Audit", {
    example: {
      ok: true,
      checks: [
        {
          name: "effect_without_key",
          guarantee: 4,
          claim: "Every order whose key cannot have been evicted has it, completed",
          violations: 0,
          ids: [],
        },
      ],
    },
  }),
});

export const readAudit: RouteHandler<typeof auditRoute, AppEnv> = async (c) => {
  return c.json(await audit(c.var.db, booksOf(c)), 200);
};

interface Invariant<Offenders> {
  name: string;
  /** Its number in docs/protocol.md. */
  guarantee: number;
  claim: string;
  offenders: Offenders;
}

const ACTIVE_ORDERS = sql`(SELECT * FROM orders WHERE status <> 'cancelled')`;

/** Each selects its offenders' ids, in a column `id`. */
const INVARIANTS: Invariant<SQL>[] = [
  {
    name: "effect_without_key",
    guarantee: 4,
    claim: "Every order whose key cannot have been evicted has it, completed",
    // Not by the retention window: it may have been another one when the key was claimed. An order's key is completed
    // after the order was made, so that none that was evicted can be the key of a later order.
    offenders: sql`SELECT id FROM orders WHERE created_at > (SELECT newest_evicted_at FROM ledger_figures)
      AND id NOT IN (SELECT 'ord_' || operation_id FROM idempotency_keys WHERE status = 'completed')`,
  },
  {
    name: "key_without_effect",
    guarantee: 4,
    claim: "Every completed key that answered 201 to POST /orders has its order",
    offenders: sql`SELECT operation_id AS id FROM idempotency_keys
      WHERE request_path = '/orders' AND response_status = 201 AND 'ord_' || operation_id NOT IN (SELECT id FROM orders)`,
  },
  {
    name: "one_key_per_operation",
    guarantee: 1,
    claim: "No two keys share an operation",
    offenders: sql`SELECT operation_id AS id FROM idempotency_keys GROUP BY operation_id HAVING count(*) > 1`,
  },
  {
    name: "fence_is_empty",
    guarantee: 3,
    claim: "No row ever passed the fence's constraint",
    offenders: sql`SELECT 'fence' AS id FROM idempotency_fence`,
  },
  {
    name: "stock_not_negative",
    guarantee: 6,
    claim: "No stock is below zero",
    offenders: sql`SELECT id FROM products WHERE stock < 0`,
  },
  {
    name: "stock_adds_up",
    guarantee: 6,
    claim: "Stock on the books = stock left + reserved and sold",
    offenders: sql`SELECT p.id FROM products p
      WHERE (SELECT coalesce(sum(delta), 0) FROM stock_adjustments WHERE product_id = p.id)
        <> p.stock + (SELECT coalesce(sum(i.quantity), 0) FROM order_items i
          JOIN ${ACTIVE_ORDERS} o ON o.id = i.order_id WHERE i.product_id = p.id)`,
  },
  {
    name: "order_paid_once",
    guarantee: 6,
    claim: "No order has two payments that succeeded",
    offenders: sql`SELECT order_id AS id FROM payments WHERE status = 'succeeded' GROUP BY order_id HAVING count(*) > 1`,
  },
  {
    name: "captured_is_paid",
    guarantee: 6,
    claim: "An order is paid if and only if a payment of its total succeeded",
    offenders: sql`SELECT o.id FROM orders o LEFT JOIN payments p ON p.order_id = o.id AND p.status = 'succeeded'
      WHERE (o.status IN ('paid', 'partially_refunded', 'refunded')) <> (p.id IS NOT NULL) OR p.amount <> o.total`,
  },
  {
    name: "refunds_add_up",
    guarantee: 6,
    claim: "A payment's refunded amount is the sum of its refunds, and at most what was captured",
    offenders: sql`SELECT p.id FROM payments p WHERE p.refunded_amount > p.amount OR p.refunded_amount <>
      (SELECT coalesce(sum(amount), 0) FROM refunds WHERE payment_id = p.id AND status <> 'failed')`,
  },
  {
    name: "order_follows_refunds",
    guarantee: 6,
    claim:
      "An order is refunded, or partially refunded, exactly as its refunds that succeeded add up",
    offenders: sql`SELECT o.id FROM orders o JOIN payments p ON p.order_id = o.id AND p.status = 'succeeded'
      WHERE o.status <> (SELECT CASE coalesce(sum(amount), 0) WHEN 0 THEN 'paid' WHEN p.amount THEN 'refunded'
        ELSE 'partially_refunded' END FROM refunds WHERE payment_id = p.id AND status = 'succeeded')`,
  },
];

/**
 * Runs every check. Reads whole tables: for a quiet hour, or after a test.
 *
 * @param sandbox The provider's books; undefined with a real provider, whose books are not ours to read at this length.
 */
export async function audit(db: Database, sandbox: DurableObjectStub<StripeSandbox> | undefined) {
  const checks = [];
  for (const invariant of INVARIANTS) {
    const rows = await db.all<{ id: string }>(invariant.offenders);
    checks.push(result({ ...invariant, offenders: rows.map(({ id }) => id) }));
  }
  if (sandbox !== undefined) checks.push(...(await auditCharges(db, sandbox)));
  return { ok: checks.every(({ violations }) => violations === 0), checks };
}

async function auditCharges(db: Database, sandbox: DurableObjectStub<StripeSandbox>) {
  const idsOf = async (query: SQL) =>
    new Set((await db.all<{ id: string }>(query)).map(({ id }) => id));
  // In this order, so that what happens meanwhile is no offence: settled before the books are read, known after.
  const settled = await idsOf(sql`SELECT id FROM payments WHERE status = 'succeeded'
    UNION ALL SELECT id FROM refunds WHERE status = 'succeeded'`);
  const charges = await allOf((page) => sandbox.charges(page));
  const refunds = await allOf((page) => sandbox.refunds(page));
  const expected =
    await idsOf(sql`SELECT id || ' ' || amount AS id FROM payments WHERE status <> 'failed'
    UNION ALL SELECT id || ' ' || amount FROM refunds WHERE status <> 'failed'`);
  const charged = charges
    .filter(({ status }) => status === "succeeded")
    .map(({ paymentId, id, amount }) => ({ id: paymentId ?? id, amount }));
  const refunded = refunds.map(({ refundId, id, amount }) => ({ id: refundId ?? id, amount }));
  const moved = [...charged, ...refunded];
  const movedIds = new Set(moved.map(({ id }) => id));
  return [
    result({
      name: "one_charge_per_payment",
      guarantee: 5,
      claim: "The provider has charged no payment twice",
      offenders: repeated(charged),
    }),
    result({
      name: "one_refund_per_refund",
      guarantee: 5,
      claim: "The provider has given no refund twice",
      offenders: repeated(refunded),
    }),
    result({
      name: "nothing_moved_unasked",
      guarantee: 5,
      claim:
        "Every charge and refund at the provider is one of ours, of its amount, that has not failed",
      offenders: moved
        .filter(({ id, amount }) => !expected.has(`${id} ${amount}`))
        .map(({ id }) => id),
    }),
    result({
      name: "nothing_claimed_unmoved",
      guarantee: 5,
      claim: "Every payment and refund that succeeded has moved at the provider",
      offenders: [...settled].filter((id) => !movedIds.has(id)),
    }),
  ];
}

/** The ids that are there more than once, once each. */
function repeated(records: readonly { id: string }[]): string[] {
  const byId = Map.groupBy(records, ({ id }) => id);
  return [...byId].filter(([, same]) => same.length > 1).map(([id]) => id);
}

/** @throws when there are more pages than are read: half an audit would be none. */
async function allOf<Item extends { seq: number }>(
  read: (page: { limit: number; before: number | undefined }) => Promise<Item[]>,
): Promise<Item[]> {
  const items: Item[] = [];
  for (let page = 0; page < MAX_PAGES; page++) {
    const found = await read({ limit: PAGE_SIZE, before: items.at(-1)?.seq });
    items.push(...found);
    if (found.length < PAGE_SIZE) return items;
  }
  throw new Error(`the provider's books have more than ${MAX_PAGES * PAGE_SIZE} records`);
}

function result({ offenders, ...invariant }: Invariant<string[]>) {
  return { ...invariant, violations: offenders.length, ids: offenders.slice(0, MAX_IDS) };
}
