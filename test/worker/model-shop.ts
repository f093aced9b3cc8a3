import type { Json } from "./shop.ts";

/** What a request asks for. Amounts are minor units. */
export type Ask =
  | { kind: "nonsense" }
  | { kind: "create"; sku: string; price: number; stock: number }
  | { kind: "adjust"; product: string; delta: number }
  | { kind: "order"; lines: { product: string; quantity: number }[] }
  | { kind: "cancel"; order: string }
  | { kind: "pay"; order: string; method: string }
  | { kind: "refund"; payment: string; amount: number | undefined };

/** What a key names. Its id is learned from the first row that shows it, and stays. */
export interface Operation {
  id: string | null;
  account: string;
  key: string;
}

/** What is stored under a key. Whoever asks gets the same `bytes`, which the first answer shows. */
export interface Outcome {
  status: number;
  error?: string;
  /** Members of the body, once the operation's id is known. */
  says: () => Json;
  bytes?: string;
}

/** Whether it is allowed is asked when it lands: others may have been there since it was decided. */
export interface Change {
  isAllowed: () => boolean;
  effect: () => void;
}

export interface Decision extends Change {
  outcome: Outcome;
}

/** What is written down, then asked of the provider, and decided by what it says. */
export interface Intent {
  intent: Change;
  /** "too old": the provider may have forgotten the key by now, and is not asked. */
  ask: (() => Said) | "too old";
  on: Record<"yes" | "no", Decision>;
}

export type Said = "yes" | "no" | "unknown";

interface Product {
  operation: Operation;
  sku: string;
  price: number;
  stock: number;
}
interface Order {
  operation: Operation;
  status: "pending" | "paid" | "partially_refunded" | "refunded" | "cancelled";
  lines: { product: Product; quantity: number }[];
}
interface Money {
  operation: Operation;
  status: "processing" | "succeeded" | "failed";
  amount: number;
  createdAt: number;
  updatedAt: number;
}
interface Payment extends Money {
  order: Order;
  method: string;
  /** Given back, or reserved to be. */
  refunded: number;
}
interface Refund extends Money {
  payment: Payment;
}

const ASKABLE_MS = 23 * 3_600_000;
const STATUS: Record<string, number> = {
  card_declined: 402,
  not_found: 404,
  unknown_product: 422,
  refund_exceeds_payment: 422,
};

/** The shop: who may do what, and what it changes. */
export class ModelShop {
  readonly products: Product[] = [];
  readonly orders: Order[] = [];
  readonly payments: Payment[] = [];
  readonly refunds: Refund[] = [];
  /** The provider answers an operation's id as it did the first time. */
  readonly #known = new Set<Operation>();

  decide(ask: Ask, operation: Operation, now: number): Decision | Intent {
    const find = <Thing extends { operation: Operation }>(things: Thing[], id: string) =>
      things.find(
        (t) => t.operation.account === operation.account && id.endsWith(`_${t.operation.id}`),
      );
    switch (ask.kind) {
      case "nonsense":
        throw new Error("never gets as far as the shop");
      case "create":
        return this.#create(ask, operation);
      case "adjust":
        return this.#adjust(find(this.products, ask.product), ask.delta, operation);
      case "order": {
        const lines = ask.lines.map((line) => ({
          ...line,
          product: find(this.products, line.product),
        }));
        return this.#order(lines, operation);
      }
      case "cancel":
        return this.#cancel(find(this.orders, ask.order));
      case "pay":
        return this.#pay(find(this.orders, ask.order), ask.method, { operation, now });
      case "refund":
        return this.#refund(find(this.payments, ask.payment), ask.amount, { operation, now });
    }
  }

  #create({ sku, price, stock }: Extract<Ask, { kind: "create" }>, operation: Operation) {
    const isFree = () =>
      !this.products.some((p) => p.operation.account === operation.account && p.sku === sku);
    return provided(isFree, "sku_taken", {
      says: () => ({ id: `prod_${operation.id}`, sku, stock }),
      effect: () => void this.products.push({ operation, sku, price, stock }),
    });
  }

  #adjust(product: Product | undefined, delta: number, operation: Operation) {
    if (product === undefined) return no("not_found");
    return provided(() => product.stock + delta >= 0, "insufficient_stock", {
      says: () => ({ id: `adj_${operation.id}`, delta }),
      effect: () => void (product.stock += delta),
    });
  }

  #order(found: { product: Product | undefined; quantity: number }[], operation: Operation) {
    if (found.some(({ product }) => product === undefined)) return no("unknown_product");
    const lines = found as Order["lines"];
    const isInStock = () => lines.every(({ product, quantity }) => product.stock >= quantity);
    return provided(isInStock, "insufficient_stock", {
      says: () => ({ id: `ord_${operation.id}`, status: "pending", total: totalOf(lines) }),
      effect: () => {
        for (const { product, quantity } of lines) product.stock -= quantity;
        this.orders.push({ operation, status: "pending", lines });
      },
    });
  }

  #cancel(order: Order | undefined) {
    if (order === undefined) return no("not_found");
    return provided(() => this.#isOpen(order), "order_not_cancellable", {
      status: 200,
      says: () => ({ id: `ord_${order.operation.id}`, status: "cancelled" }),
      effect: () => {
        order.status = "cancelled";
        for (const { product, quantity } of order.lines) product.stock += quantity;
      },
    });
  }

  /** Nobody has paid for it, cancelled it, or begun to. */
  #isOpen(order: Order): boolean {
    const isBeingPaid = this.payments.some((p) => p.order === order && p.status === "processing");
    return order.status === "pending" && !isBeingPaid;
  }

  #pay(
    order: Order | undefined,
    method: string,
    { operation, now }: { operation: Operation; now: number },
  ): Decision | Intent {
    if (order === undefined) return no("not_found");
    const known = this.payments.find((p) => p.operation === operation);
    if (known === undefined && !this.#isOpen(order)) {
      return no(order.status === "pending" ? "payment_in_progress" : "order_not_payable");
    }
    const begun = { status: "processing" as const, createdAt: now, updatedAt: now };
    const amount = totalOf(order.lines);
    const payment: Payment = known ?? { operation, order, method, amount, refunded: 0, ...begun };
    return {
      intent: {
        isAllowed: () => known !== undefined || this.#isOpen(order),
        effect: () => note(this.payments, payment, now),
      },
      ask: this.#provider(payment, now, (isFirstCall) => {
        if (payment.method === "pm_card_chargeDeclined") return "no";
        return payment.method === "pm_sandbox_unavailable_once" && isFirstCall ? "unknown" : "yes";
      }),
      on: {
        yes: yes({
          says: () => ({ id: `pay_${operation.id}`, status: "succeeded", amount }),
          effect: () => {
            payment.status = "succeeded";
            order.status = "paid";
          },
        }),
        no: no("card_declined", () => void (payment.status = "failed")),
      },
    };
  }

  #refund(
    payment: Payment | undefined,
    asked: number | undefined,
    { operation, now }: { operation: Operation; now: number },
  ): Decision | Intent {
    if (payment === undefined) return no("not_found");
    const known = this.refunds.find((r) => r.operation === operation);
    if (payment.status !== "succeeded") return no("payment_not_refundable");
    const amount = known?.amount ?? asked ?? payment.amount - payment.refunded;
    const isLeft = () => amount > 0 && payment.refunded + amount <= payment.amount;
    if (known === undefined && !isLeft()) return no("refund_exceeds_payment");
    const begun = { status: "processing" as const, createdAt: now, updatedAt: now };
    const refund: Refund = known ?? { operation, payment, amount, ...begun };
    return {
      intent: {
        isAllowed: () => known !== undefined || (!this.refunds.includes(refund) && isLeft()),
        // The amount is reserved before the provider is asked.
        effect: () => {
          if (known === undefined) payment.refunded += amount;
          note(this.refunds, refund, now);
        },
      },
      ask: this.#provider(refund, now, (isFirstCall) => {
        const { method } = payment;
        if (method === "pm_sandbox_refund_unavailable_once" && isFirstCall) return "unknown";
        if (method !== "pm_sandbox_refund_refused") return "yes";
        // That the request itself is wrong is believed of a first asking, or as the stored answer to one.
        return known === undefined || !isFirstCall ? "no" : "unknown";
      }),
      on: {
        yes: yes({
          says: () => ({ id: `ref_${operation.id}`, status: "succeeded", amount }),
          effect: () => {
            refund.status = "succeeded";
            const done = this.refunds.filter(
              (r) => r.payment === payment && r.status === "succeeded",
            );
            const isAll = sum(done.map((r) => r.amount)) === payment.amount;
            payment.order.status = isAll ? "refunded" : "partially_refunded";
          },
        }),
        no: no("payment_not_refundable", () => {
          refund.status = "failed";
          payment.refunded -= amount;
        }),
      },
    };
  }

  #provider({ operation, createdAt }: Money, now: number, says: (isFirstCall: boolean) => Said) {
    if (now - createdAt > ASKABLE_MS) return "too old";
    return () => {
      const isFirstCall = !this.#known.has(operation);
      this.#known.add(operation);
      return says(isFirstCall);
    };
  }
}

const sum = (numbers: number[]) => numbers.reduce((total, n) => total + n, 0);
const totalOf = (lines: Order["lines"]) =>
  sum(lines.map(({ product, quantity }) => product.price * quantity));

function note<Kind extends Money>(all: Kind[], money: Kind, now: number): void {
  money.updatedAt = now;
  if (!all.includes(money)) all.push(money);
}

type Done = { status?: number; says: () => Json; effect: () => void };

function provided(isAllowed: () => boolean, otherwise: string, done: Done): Decision {
  return isAllowed() ? { ...yes(done), isAllowed } : no(otherwise);
}

function yes({ status = 201, says, effect }: Done): Decision {
  return { outcome: { status, says }, isAllowed: () => true, effect };
}

function no(error: string, effect = () => {}): Decision {
  const outcome = { status: STATUS[error] ?? 409, error, says: () => ({}) };
  return { outcome, isAllowed: () => true, effect };
}
