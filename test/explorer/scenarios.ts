import { createHash } from "node:crypto";

/** How much of what may happen does happen, at most, in one schedule. */
export interface Budget {
  faults: number;
  /** Times that a whole pending TTL passes. */
  ttls: number;
  /** Times that a whole retention window passes. */
  windows: number;
  sweeps: number;
  /** Runs of the reconciler, each after its patience with what is unsettled has passed. */
  reconciles: number;
}

export interface Client {
  name: string;
  path: string;
  body: object;
  key: string;
  apiKey: string;
  accountId: string;
  /** Arrives only when this one has: of two clients that send the same, which comes first makes no difference. */
  after?: string;
  /** The body arrives later than the headers. */
  isSlow?: boolean;
}

export interface Scenario {
  name: string;
  /** SQL, run once. */
  seed: string;
  clients: Client[];
  /** Its requests are sent again at the end, without faults, until they have an answer. */
  retries: Client[];
  budget: Budget;
  /** SQL for what was done: the id of each effect, and the account that it was done for. */
  effects: string;
  /** What the provider has charged before. */
  charged?: { paymentId: string; amount: number }[];
  /** The order is placed in one of the usual ways, without the ledger (src/lab): only duplicates are looked for. */
  isNaive?: boolean;
}

/**
 * The Worker's settings, in every scenario. The window is short of the time after which the provider is not asked again
 * under a key: a payment that is older waits for its webhook, and no retry can finish it.
 */
export const SETTINGS = { PENDING_TTL_MS: "30000", RETENTION_MS: "3600000" };

export const PENDING_TTL_MS = Number(SETTINGS.PENDING_TTL_MS);
export const RETENTION_MS = Number(SETTINGS.RETENTION_MS);

/** When every schedule begins, epoch ms. */
export const START = Date.UTC(2030, 0, 1);

export const account = (n: number) => `acct_00000000-0000-7000-8000-00000000000${n}`;
const apiKey = (n: number) => `explorer_${n}`;
const PRODUCT = "prod_00000000-0000-7000-8000-000000000001";
const PRODUCT_OF_2 = "prod_00000000-0000-7000-8000-000000000002";
const ORDER = "ord_00000000-0000-7000-8000-000000000001";

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const UNITS = 10;

const SHOP = [PRODUCT, PRODUCT_OF_2]
  .map(
    (product, i) => `
  INSERT INTO accounts VALUES ('${account(i + 1)}', 'Account', '${sha256(apiKey(i + 1))}', 0);
  INSERT INTO products VALUES ('${product}', '${account(i + 1)}', 'MUG', 'Mug', 1250, 'EUR', ${UNITS}, 0);
  INSERT INTO stock_adjustments VALUES ('adj_${i + 1}', '${product}', ${UNITS}, NULL, 0);`,
  )
  .join("");

/** Placed before the retention window began, so that the audit does not look for its key. */
const PLACED = `
  INSERT INTO orders VALUES ('${ORDER}', '${account(1)}', 'pending', 'EUR', 1250, NULL, 0, 0);
  INSERT INTO order_items VALUES ('${ORDER}', 0, '${PRODUCT}', 'Mug', 1250, 1);
  UPDATE products SET stock = stock - 1 WHERE id = '${PRODUCT}';`;
const PAYMENT = "pay_00000000-0000-7000-8000-000000000001";
const PAID = `
  INSERT INTO payments VALUES ('${PAYMENT}', '${account(1)}', '${ORDER}', 'processing', 1250, 'EUR', 0, 'pm_card_visa',
    'seed', 'pi_seed', NULL, 0, 0);
  UPDATE payments SET status = 'succeeded';
  UPDATE orders SET status = 'paid';`;

const same = { key: "key-1", apiKey: apiKey(1), accountId: account(1) };
const order = (quantity: number) => ({ items: [{ product_id: PRODUCT, quantity }] });
const ordering = { ...same, path: "/orders", body: order(1) };
// The same body from two accounts: nothing but the account tells the requests apart.
const shelving = {
  ...same,
  path: "/products",
  body: { sku: "CUP", name: "Cup", unit_price: 500, currency: "EUR", stock: UNITS },
};
const neighbours = { ...shelving, apiKey: apiKey(2), accountId: account(2) };
const paying = {
  ...same,
  path: `/orders/${ORDER}/payments`,
  body: { payment_method: "pm_card_visa" },
};
const otherwise = { ...paying, body: { payment_method: "pm_card_mastercard" } };
const refunding = { ...same, path: `/payments/${PAYMENT}/refunds`, body: { amount: 1000 } };
/** So little that the payment holds it twice. */
const refundingALittle = { ...refunding, body: { amount: 400 } };

/** Clients that send one request at once: a client and its own impatient retries. */
function duplicates<Request extends object>(request: Request, count: number) {
  return Array.from({ length: count }, (_, i) => ({
    ...request,
    name: "ABC"[i]!,
    ...(i > 0 && { after: "ABC"[i - 1]! }),
  }));
}

const NONE: Budget = { faults: 0, ttls: 0, windows: 0, sweeps: 0, reconciles: 0 };

const ORDERS_PLACED = "SELECT id, account_id AS account FROM orders WHERE created_at > 0";
const PRODUCTS_ADDED = "SELECT id, account_id AS account FROM products WHERE created_at > 0";
const PAYMENTS_MADE =
  "SELECT id, account_id AS account FROM payments WHERE status = 'succeeded' AND created_at > 0";
const REFUNDS_GIVEN = "SELECT id, account_id AS account FROM refunds WHERE status = 'succeeded'";

export interface Bounds {
  /** Clients that send the same request at once. */
  clients: number;
  /** Messages that something goes wrong with, in one schedule. */
  faults: number;
}

export function scenarios({ clients, faults }: Bounds): Scenario[] {
  const orders = { seed: SHOP, effects: ORDERS_PLACED, retries: [{ ...ordering, name: "retry" }] };
  const payments = {
    seed: SHOP + PLACED,
    effects: PAYMENTS_MADE,
    retries: [{ ...paying, name: "retry" }],
  };
  const refunds = {
    seed: SHOP + PLACED + PAID,
    charged: [{ paymentId: PAYMENT, amount: 1250 }],
    effects: REFUNDS_GIVEN,
  };
  return [
    {
      ...orders,
      name: "orders",
      clients: [
        ...duplicates(ordering, clients),
        { ...ordering, name: "stranger", body: order(2) },
      ],
      budget: { ...NONE, faults, ttls: 1 },
    },
    {
      ...orders,
      name: "orders past the window",
      clients: duplicates(ordering, clients),
      budget: { ...NONE, faults, windows: 1, sweeps: 1 },
    },
    {
      ...orders,
      name: "orders by slow upload",
      clients: duplicates({ ...ordering, isSlow: true }, clients),
      budget: { ...NONE, faults, ttls: 1 },
    },
    {
      seed: SHOP,
      effects: PRODUCTS_ADDED,
      name: "one key, two accounts",
      clients: [
        { ...shelving, name: "A" },
        { ...neighbours, name: "neighbour" },
      ],
      retries: [
        { ...shelving, name: "retry" },
        { ...neighbours, name: "neighbour's retry" },
      ],
      budget: { ...NONE, faults, ttls: 1 },
    },
    {
      ...payments,
      name: "payments",
      clients: duplicates(paying, clients),
      budget: { ...NONE, faults, ttls: 1 },
    },
    {
      ...payments,
      name: "payments with another body",
      clients: [
        { ...paying, name: "A" },
        { ...otherwise, name: "stranger" },
      ],
      retries: [
        { ...paying, name: "retry" },
        { ...otherwise, name: "stranger's retry" },
      ],
      budget: { ...NONE, faults, ttls: 1 },
    },
    {
      ...payments,
      name: "payments past the window",
      clients: [{ ...paying, name: "A" }],
      budget: { ...NONE, faults, windows: 1, sweeps: 1 },
    },
    {
      ...payments,
      name: "payments and the reconciler",
      // The reconciler is one client more.
      clients: duplicates(paying, clients - 1),
      budget: { ...NONE, faults, reconciles: 1 },
    },
    {
      ...payments,
      name: "two keys pay one order",
      clients: [
        { ...paying, name: "A" },
        { ...paying, name: "other key", key: "key-2" },
      ],
      retries: [
        { ...paying, name: "retry" },
        { ...paying, name: "retry of the other key", key: "key-2" },
      ],
      budget: { ...NONE, faults },
    },
    {
      ...refunds,
      name: "refunds",
      clients: duplicates(refunding, clients),
      retries: [{ ...refunding, name: "retry" }],
      budget: { ...NONE, faults, ttls: 1 },
    },
    {
      ...refunds,
      name: "refunds and the reconciler past the window",
      clients: [{ ...refundingALittle, name: "A" }],
      retries: [{ ...refundingALittle, name: "retry" }],
      // All that passes is as much as a fault more.
      budget: { ...NONE, faults: Math.max(0, faults - 1), windows: 1, sweeps: 1, reconciles: 1 },
    },
  ];
}

/** The control group: an instrument that finds nothing here would find nothing anywhere. */
export const NAIVE_ENDPOINTS = ["no-key", "select-then-insert", "two-transactions", "unfenced"];

function naiveScenario(endpoint: string, { clients, faults }: Bounds): Scenario {
  const placing = { ...ordering, path: `/lab/orders/${endpoint}` };
  return {
    name: endpoint,
    seed: SHOP,
    effects: ORDERS_PLACED,
    isNaive: true,
    clients: duplicates(placing, clients),
    retries: [{ ...placing, name: "retry" }],
    budget: { ...NONE, faults, ttls: 1 },
  };
}

/** @throws naming those that there are, when there is none of that name. */
export function scenarioOf(name: string, bounds: Bounds): Scenario {
  const naive = NAIVE_ENDPOINTS.map((endpoint) => naiveScenario(endpoint, bounds));
  const all = [...scenarios(bounds), ...naive];
  const found = all.find((scenario) => scenario.name === name);
  if (found !== undefined) return found;
  const names = all.map((scenario) => `  ${scenario.name}`).join("\n");
  throw new Error(`There is no scenario "${name}". There are:\n${names}`);
}
