import { Gauge } from "k6/metrics";

import { pause, post, read } from "./shop.ts";

// What happened, as the ledger, the shop and the provider have it, not as the script counted. Everything is the
// difference between setup() and teardown(), so the database may be old, but nobody else may use it meanwhile.

/** Most that can be stocked: enough for any load. */
const STOCK = 1_000_000_000;
/** As many charges as one page lists, and the most pages that are read. */
const PAGE_SIZE = 1_000;
const MAX_PAGES = 1_000;
/** How long teardown() waits for claims that are still held: the longest lease, and some. */
const SETTLE_PAUSE_MS = 500;
const MAX_SETTLE_PAUSES = 80;

const gauges = {
  ledger_keys: new Gauge("ledger_keys"),
  ledger_takeovers: new Gauge("ledger_takeovers"),
  ledger_fenced_out: new Gauge("ledger_fenced_out"),
  ledger_evicted: new Gauge("ledger_evicted"),
  shop_orders: new Gauge("shop_orders"),
  provider_charges: new Gauge("provider_charges"),
  provider_charged_twice: new Gauge("provider_charged_twice"),
  provider_refunds: new Gauge("provider_refunds"),
  /** Keys without one of the effects above; below zero, effects without a key. */
  ledger_unexplained: new Gauge("ledger_unexplained"),
  audit_violations: new Gauge("audit_violations"),
  /** 1 once all of them are there: a gauge that nobody set reads 0, as one that found nothing wrong does. */
  books_read: new Gauge("books_read"),
};

/** Every claimed key has led to one effect, and every effect has its key. */
export const BALANCED = {
  books_read: ["value==1"],
  ledger_unexplained: ["value==0"],
  provider_charged_twice: ["value==0"],
  audit_violations: ["value==0"],
};

export interface Books {
  /** New with every run, the beginning of all its keys. */
  run: string;
  /** Ids of products that only this run sells: what is missing of their stock was ordered by it. */
  products: string[];
  ledger: Ledger;
  /** Number of the newest charge at the provider. */
  lastCharge: number;
}

/** To be called in setup(). */
export async function openBooks({ products = 1 } = {}): Promise<Books> {
  const run = `load-${Date.now().toString(36)}`;
  const ids: string[] = [];
  for (let number = 0; number < products; number++)
    ids.push(await stockUp(`${run}-product-${number}`));
  const [newest] = await chargePage({ limit: 1 });
  return { run, products: ids, ledger: await readLedger(), lastCharge: newest?.seq ?? 0 };
}

async function stockUp(sku: string): Promise<string> {
  const body = { sku, name: "Load", unit_price: 1250, currency: "EUR", stock: STOCK };
  const made = await post({ path: "/products", key: sku, body, kind: "product" });
  if (made.status !== 201) throw new Error(`no product to sell: ${made.bytes}`);
  return made.id;
}

/** To be called in teardown(), once nothing is sent any more. */
export async function closeBooks(books: Books): Promise<void> {
  const before = books.ledger;
  const ledger = await readSettledLedger(before.pending);
  const ordered = await Promise.all(books.products.map(ordersOf));
  const charged = await chargesSince(books.lastCharge);
  const audit = (await read("/admin/audit", "operator")) as { checks: { violations: number }[] };

  const keys = ledger.keys - before.keys;
  const orders = sum(ordered);
  const charges = charged.length;
  const refunds = charged.filter(({ amountRefunded }) => amountRefunded > 0).length;
  const figures: Record<keyof typeof gauges, number> = {
    ledger_keys: keys,
    ledger_takeovers: ledger.takeovers - before.takeovers,
    ledger_fenced_out: ledger.fencedOut - before.fencedOut,
    ledger_evicted: ledger.evicted - before.evicted,
    shop_orders: orders,
    provider_charges: charges,
    provider_charged_twice: charges - new Set(charged.map(({ paymentId }) => paymentId)).size,
    provider_refunds: refunds,
    ledger_unexplained: keys - orders - charges - refunds,
    audit_violations: sum(audit.checks.map(({ violations }) => violations)),
    books_read: 1,
  };
  for (const name of Object.keys(gauges) as (keyof typeof gauges)[])
    gauges[name].add(figures[name]);
}

/** How many orders of one unit have been placed for a product: what is missing of its stock. */
export async function ordersOf(product: string): Promise<number> {
  const { stock } = await read(`/products/${product}`);
  return STOCK - Number(stock);
}

interface Ledger {
  /** Ever claimed, evicted ones included. */
  keys: number;
  /** In the table now. */
  rows: number;
  pending: number;
  takeovers: number;
  fencedOut: number;
  evicted: number;
  /** How long the oldest expired row is overdue. */
  lagMs: number;
}

export async function readLedger(): Promise<Ledger> {
  const { rows, takeovers, fenced_out, eviction } = (await read("/admin/ledger", "operator")) as {
    rows: { pending: number; completed: number; released: number };
    takeovers: number;
    fenced_out: number;
    eviction: { evicted: number; lag_ms: number };
  };
  const { evicted, lag_ms: lagMs } = eviction;
  const total = rows.pending + rows.completed + rows.released;
  const { pending } = rows;
  return {
    keys: total + evicted,
    rows: total,
    pending,
    takeovers,
    fencedOut: fenced_out,
    evicted,
    lagMs,
  };
}

/** A client may have given up on an operation that the service still finishes. */
async function readSettledLedger(pendingBefore: number): Promise<Ledger> {
  let ledger = await readLedger();
  for (let pauses = 0; pauses < MAX_SETTLE_PAUSES && ledger.pending > pendingBefore; pauses++) {
    await pause(SETTLE_PAUSE_MS);
    ledger = await readLedger();
  }
  return ledger;
}

interface Charge {
  seq: number;
  paymentId: string;
  amountRefunded: number;
}

/** Declined ones, too. */
async function chargesSince(last: number): Promise<Charge[]> {
  const found: Charge[] = [];
  for (let page = 0; page < MAX_PAGES; page++) {
    const charged = await chargePage({ limit: PAGE_SIZE, before: found.at(-1)?.seq });
    const since = charged.filter(({ seq }) => seq > last);
    found.push(...since);
    if (since.length < PAGE_SIZE) return found;
  }
  throw new Error(`there are more than ${MAX_PAGES * PAGE_SIZE} charges`);
}

async function chargePage({ limit, before }: { limit: number; before?: number | undefined }) {
  const page = before === undefined ? "" : `&before=${before}`;
  const { data } = await read(`/admin/sandbox/charges?limit=${limit}${page}`, "operator");
  return data as Charge[];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
