import { expectTypeOf, test } from "vitest";

import type { Problem } from "../../src/client/answer.ts";
import { createClient, type Found, type Outcome } from "../../src/client/client.ts";
import type { KeyedApi, ReadApi } from "../../src/client/draft.ts";

// Goal: what the compiler knows of the service, and what it refuses. It is `tsc`, in `npm run check`, that fails.

const shop = createClient({ baseUrl: "http://shop.test", apiKey: "k" });
const param = { id: "ord_1" };
const json = { items: [{ product_id: "prod_1", quantity: 1 }] };

interface Order {
  id: string;
  status: "pending" | "paid" | "partially_refunded" | "refunded" | "cancelled";
  currency: string;
  total: number;
  reference: string | null;
  items: {
    product_id: string;
    name: string;
    unit_price: number;
    quantity: number;
    subtotal: number;
  }[];
  created_at: string;
}

test("an operation's outcome has the body that its route declares", () => {
  const placing = shop.operation((api) => api.orders.$post({ json }));
  const cancelling = shop.withKey("k", (api) => api.orders[":id"].cancel.$post({ param }));

  expectTypeOf(() => placing.send()).returns.resolves.toEqualTypeOf<Outcome<Order>>();
  expectTypeOf(() => cancelling.send()).returns.resolves.toEqualTypeOf<Outcome<Order>>();
});

test("so has what a read finds", () => {
  const read = () => shop.read((api) => api.orders.$get());
  expectTypeOf(read).returns.resolves.toEqualTypeOf<Found<{ data: Order[]; has_more: boolean }>>();
});

test("a request takes what its route asks for", () => {
  type Place = Parameters<KeyedApi["orders"]["$post"]>[0];
  type Items = { product_id: string; quantity: number }[];
  expectTypeOf<Place["json"]>().toEqualTypeOf<{ items: Items; reference?: string | undefined }>();
  expectTypeOf<Place>().not.toHaveProperty("header");
  expectTypeOf<Parameters<ReadApi["orders"]["$get"]>>().toExtend<[unknown?]>();

  // @ts-expect-error: the body is missing
  shop.operation((api) => api.orders.$post());
  // @ts-expect-error: the order is missing
  shop.operation((api) => api.orders[":id"].payments.$post({ json: { payment_method: "pm" } }));
  // @ts-expect-error: nobody but the client sends the key
  shop.operation((api) => api.orders.$post({ json, header: { "idempotency-key": "mine" } }));
});

test("there is no POST without an operation, and no operation without a key", () => {
  expectTypeOf<ReadApi["orders"]>().toHaveProperty("$get");
  expectTypeOf<ReadApi["orders"]>().not.toHaveProperty("$post");
  expectTypeOf<KeyedApi["orders"]>().toHaveProperty("$post");
  expectTypeOf<KeyedApi["orders"]>().not.toHaveProperty("$get");
  expectTypeOf<KeyedApi["webhooks"]["stripe"]>().not.toHaveProperty("$post");
});

test("a problem is told by its code", () => {
  expectTypeOf<Extract<Problem, { error: "card_declined" }>["retryable"]>().toEqualTypeOf<false>();
  expectTypeOf<Extract<Problem, { retryable: true }>["error"]>().toEqualTypeOf<
    | "idempotency_key_in_progress"
    | "idempotency_key_retry"
    | "internal_error"
    | "outcome_unknown"
    | "rate_limited"
    | "service_unavailable"
  >();
});
