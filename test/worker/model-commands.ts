import * as fc from "fast-check";
import { expect } from "vitest";

import {
  exchange,
  letTimePass,
  reconcileBoth,
  sweepBoth,
  wake,
  type World,
} from "./model-compare.ts";
import { type ModelRequest, PENDING_TTL_MS, RETENTION_MS } from "./model-ledger.ts";
import type { Service, Trouble } from "./model-service.ts";
import type { Ask, ModelShop, Operation } from "./model-shop.ts";
import type { Json } from "./shop.ts";

const INITIAL_STOCK = 9;

/** What to ask for, as it is drawn: of which things is said once it is known what there is, counted from the newest. */
type Wish =
  | { kind: "nonsense" }
  | { kind: "create"; sku: string; stock: number }
  | { kind: "adjust"; product: number; delta: number }
  | { kind: "order"; lines: { product: number; quantity: number }[] }
  | { kind: "cancel"; order: number }
  | { kind: "pay"; order: number; method: string }
  | { kind: "refund"; payment: number; amount: number | undefined };

const nth = fc.nat(3);
const of = <const Kind extends Wish["kind"]>(kind: Kind) => ({ kind: fc.constant(kind) });
const weighted = <Thing>(weight: number, arbitrary: fc.Arbitrary<Thing>) => ({ weight, arbitrary });

const line = fc.record({ product: fc.nat(1), quantity: fc.nat(3) });
const lines = fc.uniqueArray(line, {
  minLength: 1,
  maxLength: 2,
  selector: ({ product }) => product,
});
const sku = fc.constantFrom("a", "b", "x");
const delta = fc.constantFrom(-9, -1, 1, 9);
const method = fc.constantFrom(
  "pm_card_visa",
  "pm_card_visa",
  "pm_card_chargeDeclined",
  "pm_card_chargeDeclined",
  "pm_sandbox_unavailable_once",
  "pm_sandbox_unavailable_once",
  "pm_sandbox_refund_refused",
  "pm_sandbox_refund_refused",
  "pm_sandbox_refund_unavailable_once",
);
const amount = fc.constantFrom(undefined, 200, 500, 1_000, 100_000);

const wish: fc.Arbitrary<Wish> = fc.oneof(
  weighted(1, fc.record(of("nonsense"))),
  weighted(3, fc.record({ ...of("create"), sku, stock: fc.nat(INITIAL_STOCK) })),
  weighted(3, fc.record({ ...of("adjust"), product: nth, delta })),
  weighted(11, fc.record({ ...of("order"), lines })),
  weighted(4, fc.record({ ...of("cancel"), order: nth })),
  weighted(12, fc.record({ ...of("pay"), order: nth, method })),
  weighted(10, fc.record({ ...of("refund"), payment: nth, amount })),
);

const stallsAt = fc.constantFrom(1, 1, 2, 3);

const isSlow = fc.constantFrom(true, false, false);
const trouble: fc.Arbitrary<Trouble> = fc.oneof(
  weighted(5, fc.record({ at: fc.constant(0), kind: fc.constant("none"), isSlow })),
  weighted(
    2,
    fc.record({
      at: fc.nat(3),
      kind: fc.constantFrom("twice", "lost", "unheard", "shed"),
      isSlow,
    }),
  ),
  // A claim brings the time at which it was sent: one that lands late is not told of here.
  weighted(1, fc.record({ at: stallsAt, kind: fc.constant("stalls"), isSlow })),
);

/** The nth from the end, begun again at the end when there are fewer. */
function recent<Thing>(things: readonly Thing[], n: number): Thing {
  return things[things.length - 1 - (n % things.length)]!;
}

const mine = <Thing extends { operation: Operation }>(things: Thing[]) =>
  things.filter(({ operation }) => operation.account === "acme");

/** Mostly one of those for which it may succeed. */
function target<Thing extends { status: string }>(
  things: Thing[],
  status: string,
  n: number,
): Thing {
  const good = things.filter((thing) => thing.status === status);
  return recent(n === 0 || good.length === 0 ? things : good, n);
}

/** What there is not yet is asked for first: a refund needs a payment, and a payment an order. */
function askFor(wanted: Wish, shop: ModelShop): Ask {
  const [products, orders, payments] = [
    mine(shop.products),
    mine(shop.orders),
    mine(shop.payments),
  ];
  const id = (prefix: string, { operation }: { operation: Operation }) =>
    `${prefix}_${operation.id}`;
  switch (wanted.kind) {
    case "nonsense":
      return wanted;
    case "create":
      return { ...wanted, price: 500 };
    case "adjust":
      return { ...wanted, product: id("prod", recent(products, wanted.product)) };
    case "order": {
      const named = wanted.lines.map((drawn) => {
        const product = recent(products, drawn.product);
        // None means all that is left: whoever comes in between takes from it.
        return { product: id("prod", product), quantity: drawn.quantity || product.stock || 1 };
      });
      return { kind: "order", lines: named };
    }
    case "cancel":
    case "pay": {
      const basket = [{ product: 0, quantity: 1 }];
      if (orders.length === 0) return askFor({ kind: "order", lines: basket }, shop);
      return { ...wanted, order: id("ord", target(orders, "pending", wanted.order)) };
    }
    case "refund": {
      const card = { order: wanted.payment, method: "pm_card_visa" };
      if (payments.length === 0) return askFor({ kind: "pay", ...card }, shop);
      return { ...wanted, payment: id("pay", target(payments, "succeeded", wanted.payment)) };
    }
  }
}

function sentAs(ask: Ask): { path: string; body: string | undefined } {
  const json = (path: string, body: Json) => ({ path, body: JSON.stringify(body) });
  switch (ask.kind) {
    case "nonsense":
      return json("/orders", { items: [] });
    case "create": {
      const product = { sku: ask.sku, name: ask.sku, unit_price: ask.price, stock: ask.stock };
      return json("/products", { ...product, currency: "EUR" });
    }
    case "adjust":
      return json(`/products/${ask.product}/stock-adjustments`, { delta: ask.delta });
    case "order": {
      const items = ask.lines.map(({ product, quantity }) => ({ product_id: product, quantity }));
      return json("/orders", { items });
    }
    case "cancel":
      return { path: `/orders/${ask.order}/cancel`, body: undefined };
    case "pay":
      return json(`/orders/${ask.order}/payments`, { payment_method: ask.method });
    case "refund":
      return json(`/payments/${ask.payment}/refunds`, { amount: ask.amount });
  }
}

function requestOf(account: string, key: string, ask: Ask): ModelRequest {
  return { account, key, ask, ...sentAs(ask) };
}

type Command = fc.AsyncCommand<World, Service>;

function command<Args>(
  name: string,
  args: fc.Arbitrary<Args>,
  run: (args: Args, world: World, service: Service) => Promise<void>,
): fc.Arbitrary<Command> {
  return args.map((drawn) => ({
    check: () => true,
    run: (world, service) => run(drawn, world, service),
    toString: () => `${name} ${fc.stringify(drawn)}`,
  }));
}

const ask = command("ask", fc.record({ wish, trouble }), (drawn, world, service) => {
  const key = `key-${world.requests.length}`;
  const request = requestOf("acme", key, askFor(drawn.wish, world.ledger.shop));
  return exchange(world, service, request, drawn.trouble);
});

const anyEarlier = fc.oneof(weighted(3, fc.nat(4)), weighted(1, fc.nat(40)));

const repeat = command("repeat", fc.record({ n: anyEarlier, trouble }), (drawn, world, service) =>
  exchange(world, service, recent(world.requests, drawn.n), drawn.trouble),
);

/** As a client does that has no answer yet. */
const retry = command("retry", fc.record({ n: nth, trouble }), async (drawn, world, service) => {
  const unanswered = [...world.ledger.rows.values()].filter(({ status }) => status !== "completed");
  if (unanswered.length === 0) return;
  await exchange(world, service, recent(unanswered, drawn.n).request, drawn.trouble);
});

const reuseKey = command(
  "reuse the key",
  fc.record({ n: anyEarlier, wish, trouble }),
  (drawn, world, service) => {
    const { account, key } = recent(world.requests, drawn.n);
    const request = requestOf(account, key, askFor(drawn.wish, world.ledger.shop));
    return exchange(world, service, request, drawn.trouble);
  },
);

const repeatAsAnother = command(
  "repeat from the other account",
  fc.record({ n: anyEarlier, trouble }),
  (drawn, world, service) => {
    const request = recent(world.requests, drawn.n);
    const account = request.account === "acme" ? "globex" : "acme";
    return exchange(world, service, { ...request, account }, drawn.trouble);
  },
);

/** Of two keys for the same thing, the second overtakes the first. */
const overtake = command(
  "ask, be overtaken by another key, and go on",
  fc.record({ wish, at: stallsAt, isSlow }),
  async ({ wish: wanted, ...stall }, world, service) => {
    const asked = askFor(wanted, world.ledger.shop);
    const under = (key: string) => requestOf("acme", `${key}-${world.requests.length}`, asked);
    const before = world.stalled.length;
    await exchange(world, service, under("slow"), { ...stall, kind: "stalls" });
    await exchange(world, service, under("quick"));
    if (world.stalled.length > before) await wake(world, service, before);
  },
);

const letGoOn = command("let a stalled owner go on", nth, async (n, world, service) => {
  if (world.stalled.length > 0) await wake(world, service, n % world.stalled.length);
});

const ms = fc.oneof(
  weighted(2, fc.constantFrom(1_000, PENDING_TTL_MS - 1)),
  weighted(6, fc.constantFrom(PENDING_TTL_MS, PENDING_TTL_MS + 1)),
  weighted(1, fc.constantFrom(RETENTION_MS / 2, RETENTION_MS)),
);
const timePasses = command("let time pass", ms, async (drawn, world, service) =>
  letTimePass(world, service, drawn),
);

const aWindow = fc.oneof(weighted(3, fc.constant(0)), weighted(1, fc.constant(RETENTION_MS + 1)));
const sweep = command("sweep after", aWindow, (drawn, world, service) => {
  letTimePass(world, service, drawn);
  return sweepBoth(world, service);
});

const leases = fc.constantFrom(PENDING_TTL_MS + 1, 2 * PENDING_TTL_MS, 2 * PENDING_TTL_MS + 1);
const reconcile = command("reconcile after", leases, (drawn, world, service) => {
  letTimePass(world, service, drawn);
  return reconcileBoth(world, service);
});

const often = <Thing>(times: number, thing: Thing) => Array<Thing>(times).fill(thing);

export const commands = fc.commands(
  [
    ...often(5, ask),
    ...often(3, retry),
    ...often(3, reconcile),
    ...often(2, repeat),
    ...often(2, overtake),
    ...often(2, timePasses),
    reuseKey,
    repeatAsAnother,
    letGoOn,
    sweep,
  ],
  // Up to this many, and in the mean about half of them.
  { maxCommands: 110, size: "max" },
);

/** What every sequence begins with: something to sell. */
export async function begin(world: World, service: Service): Promise<void> {
  for (const product of ["x", "y"]) {
    const create = { kind: "create", sku: product, price: 500, stock: INITIAL_STOCK } as const;
    await exchange(world, service, requestOf("acme", `create-${product}`, create));
  }
}

/** Whoever still stalls goes on, and what must hold in the end does. */
export async function conclude(world: World, service: Service): Promise<void> {
  while (world.stalled.length > 0) await wake(world, service, 0);
  expect(await service.brokenGuarantees()).toEqual([]);
}
