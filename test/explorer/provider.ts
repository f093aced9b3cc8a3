/** What a call to the provider says, and what it answers. */
export interface Call {
  method: string;
  path: string;
  idempotencyKey: string | null;
  params: URLSearchParams;
}

interface Reply {
  status: number;
  body: string;
}

interface Charge {
  seq: number;
  id: string;
  paymentId: string;
  amount: number;
  status: "succeeded";
}

function chargeOf(seq: number, charged: { paymentId: string; amount: number }): Charge {
  return { ...charged, seq, id: `ch_${seq}`, status: "succeeded" };
}

interface Refund {
  seq: number;
  id: string;
  refundId: string;
  amount: number;
}

/**
 * A test double of Stripe that keeps two of its promises: a call under a key that was answered before gets that answer
 * again, and a call under any other key is carried out. Its ids count up, so that one schedule always reads the same.
 *
 * @param charged What it has charged before anything begins.
 */
export function openStripeDouble(charged: readonly { paymentId: string; amount: number }[]) {
  const answered = new Map<string, Reply>();
  const charges = charged.map((charge, i) => chargeOf(i + 1, charge));
  const refunds: Refund[] = [];

  function carryOut({ method, path, idempotencyKey, params }: Call): Reply {
    const known = idempotencyKey === null ? undefined : answered.get(idempotencyKey);
    if (known !== undefined) return known;
    const reply = { status: 200, body: JSON.stringify(execute(`${method} ${path}`, params)) };
    if (idempotencyKey !== null) answered.set(idempotencyKey, reply);
    return reply;
  }

  function execute(what: string, params: URLSearchParams) {
    const amount = Number(params.get("amount"));
    if (what === "POST /v1/payment_intents") {
      const seq = charges.length + 1;
      const paymentId = params.get("metadata[payment_id]")!;
      charges.push(chargeOf(seq, { paymentId, amount }));
      const metadata = { payment_id: paymentId };
      const currency = params.get("currency");
      return {
        object: "payment_intent",
        id: `pi_${seq}`,
        status: "succeeded",
        amount,
        currency,
        metadata,
      };
    }
    if (what === "POST /v1/refunds") {
      const seq = refunds.length + 1;
      const refundId = params.get("metadata[refund_id]")!;
      refunds.push({ seq, id: `re_${seq}`, refundId, amount });
      const metadata = { refund_id: refundId };
      return { object: "refund", id: `re_${seq}`, status: "succeeded", amount, metadata };
    }
    throw new Error(`bug: the provider's double does not know ${what}`);
  }

  return {
    carryOut,
    /** All it remembers: two doubles with one dump are the same. */
    dump: () => JSON.stringify([charges, refunds, [...answered.keys()].toSorted()]),
    /** Its books, as the audit reads them. */
    charges: async () => charges,
    refunds: async () => refunds,
  };
}
