// The part of the demo in which money moves. Charges are counted in the provider's books, not in the shop's.
import { ACME, oneOf, type Shop } from "./demo-shop.ts";
import { type DemoPlace, startOwner } from "./demo-stalled.ts";
import type { Row } from "./demo-table.ts";

const PAYERS = 50;

/** An order to be paid: where, and by which body. */
async function orderToPay(shop: Shop, name: string, method = "pm_card_visa") {
  const order = {
    account: ACME,
    path: "/orders",
    key: `demo-${name}-order`,
    body: oneOf(ACME, name),
  };
  const { json } = await shop.post(order);
  const path = `/orders/${String(json["id"])}/payments`;
  return { account: ACME, path, body: JSON.stringify({ payment_method: method }) };
}

async function paymentsAt(shop: Shop, path: string): Promise<{ id: string; status: string }[]> {
  return (await shop.get(ACME, path)).json["data"] as { id: string; status: string }[];
}

/** Charges for all payments of an order, declined and processing ones included. */
async function chargesAt(shop: Shop, path: string): Promise<number> {
  const payments = await paymentsAt(shop, path);
  const charges = await Promise.all(payments.map(({ id }) => shop.chargesOf(id)));
  return charges.reduce((sum, count) => sum + count, 0);
}

export async function payUnderOneKey(shop: Shop): Promise<Row> {
  const payment = { ...(await orderToPay(shop, "pay-one-key")), key: "demo-pay-one-key" };
  const answers = await Promise.all(
    Array.from({ length: PAYERS }, () => shop.postUntilFinal(payment)),
  );
  const paid = answers.filter(({ last }) => last.status === 201).length;
  const bodies = new Set(answers.map(({ last }) => last.bytes)).size;
  return {
    claim: `${PAYERS} payments of one order at once, under one key`,
    expected: `${PAYERS} x 201, 1 body, 1 charge`,
    seen: `${paid} x 201, ${bodies} body, ${await chargesAt(shop, payment.path)} charge`,
  };
}

export async function payUnderManyKeys(shop: Shop): Promise<Row> {
  const payment = await orderToPay(shop, "pay-many-keys");
  const answers = await Promise.all(
    Array.from({ length: PAYERS }, (_, i) =>
      shop.postUntilFinal({ ...payment, key: `demo-pay-${i}` }),
    ),
  );
  const paid = answers.filter(({ last }) => last.status === 201).length;
  const refused = answers.filter(({ last }) => last.status === 409).length;
  return {
    claim: `${PAYERS} payments of one order at once, under ${PAYERS} keys`,
    expected: `1 x 201, ${PAYERS - 1} x 409, 1 charge`,
    seen: `${paid} x 201, ${refused} x 409, ${await chargesAt(shop, payment.path)} charge`,
  };
}

export async function stallPayment(shop: Shop, place: DemoPlace): Promise<Row[]> {
  const payment = { ...(await orderToPay(shop, "stalled")), key: "demo-stalled-payment" };
  const owner = await startOwner(place, payment);
  const [processing] = await paymentsAt(shop, payment.path);

  const { first, last } = await shop.postUntilFinal(payment);
  const { json: key } = await shop.get(ACME, `/idempotency-keys/${payment.key}`);
  const { outcome } = await owner.wakeUp();
  const replay = await shop.post(payment);

  const isSame = last.json["id"] === processing?.id ? "same payment" : "another payment";
  const body = replay.isReplay && replay.bytes === last.bytes ? "same answer" : "another answer";
  return [
    {
      claim: "The owner of a payment stalls: a retry takes over",
      expected: "409, then 201, same payment, generation 2",
      seen: `${first.status}, then ${last.status}, ${isSame}, generation ${String(key["generation"])}`,
    },
    {
      claim: "The stalled owner holds a success and cannot commit",
      expected: "fence_lost, same answer, 1 charge",
      seen: `${outcome}, ${body}, ${await chargesAt(shop, payment.path)} charge`,
    },
  ];
}

export async function loseReply(shop: Shop): Promise<Row> {
  const order = await orderToPay(shop, "lost-reply", "pm_sandbox_lost_reply");
  const { first, last } = await shop.postUntilFinal({ ...order, key: "demo-lost-reply" });
  return {
    claim: "The provider charges, and its reply is lost",
    expected: "503 outcome_unknown, then 201, 1 charge",
    seen: `${first.status} ${String(first.json["error"])}, then ${last.status}, ${await chargesAt(shop, order.path)} charge`,
  };
}

/** Every guarantee that the database and the provider can show, over all that this demo did. */
export async function auditAll(shop: Shop): Promise<Row> {
  const { json } = await shop.audit();
  const checks = json["checks"] as { violations: number }[];
  const violations = checks.reduce((sum, check) => sum + check.violations, 0);
  return {
    claim: "The audit of the database and the provider's books",
    expected: `${checks.length} checks, 0 violations`,
    seen: `${checks.length} checks, ${violations} violations`,
  };
}
