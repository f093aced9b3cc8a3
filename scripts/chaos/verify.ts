import { type Shop } from "../demo-shop.ts";
import { ask, type Books } from "./books.ts";
import { type Client, type Decided, keyOf } from "./client.ts";
import { inBatches } from "./batches.ts";

/** Keys that were sent: which have no definite answer, and how many were taken over, as the service itself says. */
export async function countKeys({ sent, decided }: Client, shop: Shop) {
  const keys = [...new Map([...sent.values()].map((request) => [keyOf(request), request]))];
  const definite = new Set(decided.map(({ request }) => keyOf(request)));
  const rows = await inBatches(keys, async ([key, request]) => {
    if (!definite.has(key)) return { key, generation: 0 };
    const { json } = await ask(shop, request.account, `/idempotency-keys/${request.key}`);
    return { key, generation: json["status"] === "completed" ? Number(json["generation"]) : 0 };
  });
  return {
    keys: keys.length,
    open: rows.filter(({ generation }) => generation === 0).map(({ key }) => key),
    takenOver: rows.filter(({ generation }) => generation > 1).length,
  };
}

/** Orders that were acknowledged by a 201 against orders that are there. */
export function compareOrders(decided: readonly Decided[], { orders }: Books) {
  const named = decided.filter(
    ({ request, answer }) => request.path === "/orders" && answer.status === 201,
  );
  const shown = new Map(orders.map((order) => [order.id, order]));
  const lost = named.filter(({ answer: { json } }) => {
    const order = shown.get(String(json["id"]));
    // It may have been paid or cancelled since.
    return JSON.stringify({ ...order, status: json["status"] }) !== JSON.stringify(json);
  });
  const idByKey = new Map(
    named.map(({ request, answer }) => [keyOf(request), String(answer.json["id"])]),
  );
  const keysOf = Map.groupBy(idByKey.keys(), (key) => idByKey.get(key)!);
  return {
    orders: orders.length,
    acknowledged: idByKey.size,
    lost: [...new Set(lost.map(({ answer }) => String(answer.json["id"])))],
    duplicates: orders.map(({ id }) => id).filter((id) => keysOf.get(id)?.length !== 1),
  };
}

/** Payments in the shop, and those that were acknowledged, against charges at the provider. */
export function compareCharges(decided: readonly Decided[], { payments, charges }: Books) {
  const made = charges.filter(({ status }) => status === "succeeded");
  const chargesOf = Map.groupBy(made, (charge) => String(charge["paymentId"]));
  const succeeded = payments.filter(({ status }) => status === "succeeded").map(({ id }) => id);
  const acknowledged = decided
    .filter(({ request, answer }) => request.path.endsWith("/payments") && answer.status === 201)
    .map(({ answer }) => String(answer.json["id"]));
  const all = new Set([...payments.map(({ id }) => id), ...acknowledged, ...chargesOf.keys()]);
  const isRight = (id: string) =>
    (chargesOf.get(id)?.length ?? 0) === (succeeded.includes(id) ? 1 : 0) &&
    (succeeded.includes(id) || !acknowledged.includes(id));
  return {
    payments: succeeded.length,
    charges: made.length,
    mischarged: [...all].filter((id) => !isRight(id)),
    unsettled: payments.filter(({ status }) => status === "processing").map(({ id }) => id),
  };
}

/** What the service itself finds of what must not be, in its database and in the provider's books. */
export async function auditOf(shop: Shop) {
  const { json } = await shop.audit();
  const checks = json["checks"] as { name: string; violations: number; ids: string[] }[];
  const broken = checks.filter(({ violations }) => violations > 0);
  return { checks: checks.length, broken: broken.map(({ name, ids }) => `${name}: ${ids.join()}`) };
}
