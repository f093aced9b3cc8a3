import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { expect } from "vitest";

import { ACME, type Account } from "../../scripts/demo-shop.ts";
import { type Answer, openRequest, send } from "./http.ts";

/** Far more than the longest contention needs, at 200 ms a try. */
const MAX_TRIES = 50;

/** Talks to one running service as its clients do, over real sockets. */
export function openWire(url: string) {
  const at = (path: string) => `${url}${path}`;

  function place(account: Account, body: string, key: string, more = {}): Promise<Answer> {
    const headers = { ...headersOf(account, key), ...more };
    return send(at("/orders"), { method: "POST", headers, body });
  }

  /** The same request again while the answer says that this can help. */
  async function placeUntilFinal(account: Account, body: string, key: string): Promise<Answer> {
    let answer = await place(account, body, key);
    for (let tries = 1; tries < MAX_TRIES && answer.json["retryable"] === true; tries++) {
      await sleep(Number(answer.json["retry_after_ms"] ?? 1000));
      answer = await place(account, body, key);
    }
    return answer;
  }

  /** Sends `part` of a body of `length` bytes and, as soon as it has left this process, closes the connection. */
  async function hangUpAfter(part: string, key: string, length = Buffer.byteLength(part)) {
    const headers = { ...headersOf(ACME, key), "content-length": String(length) };
    const { request, answer } = openRequest(at("/orders"), { method: "POST", headers });
    const hungUp = answer.catch(() => undefined);
    await new Promise((written) => request.write(part, written));
    request.destroy();
    await hungUp;
  }

  function keyStatus({ apiKey }: Account, key: string): Promise<Answer> {
    const headers = { authorization: `Bearer ${apiKey}` };
    return send(at(`/idempotency-keys/${key}`), { headers });
  }

  /** A product of the caller's own, the body of an order of one unit of it, and what has become of both. */
  async function newOrder(account: Account) {
    const reference = randomUUID();
    const stock = 1000;
    const product = { sku: reference, name: "Thing", unit_price: 100, currency: "EUR", stock };
    const headers = headersOf(account, randomUUID());
    const body = JSON.stringify(product);
    const { json } = await send(at("/products"), { method: "POST", headers, body });
    const productId = String(json["id"]);
    const get = async (path: string) => (await send(at(path), { headers })).json;
    return {
      body: JSON.stringify({ items: [{ product_id: productId, quantity: 1 }], reference }),
      orders: async () => {
        const { data } = (await get("/orders?limit=100")) as { data: { reference: string }[] };
        return data.filter((order) => order.reference === reference).length;
      },
      sold: async () => stock - Number((await get(`/products/${productId}`))["stock"]),
    };
  }

  /** Whether a fresh order under a fresh key goes through. */
  async function takesOrders(): Promise<boolean> {
    const { body } = await newOrder(ACME);
    return isFirstHand(await place(ACME, body, randomUUID()));
  }

  return { at, place, placeUntilFinal, hangUpAfter, keyStatus, newOrder, takesOrders };
}

export type Wire = ReturnType<typeof openWire>;

export function headersOf({ apiKey }: Account, key: string) {
  return {
    authorization: `Bearer ${apiKey}`,
    "content-type": "application/json",
    "idempotency-key": key,
  };
}

export function problemOf({ status, headers, json }: Answer): string {
  expect(headers["content-type"]).toBe("application/problem+json");
  return `${status} ${String(json["error"])}`;
}

export function isFirstHand({ status, headers }: Answer): boolean {
  return status === 201 && headers["idempotent-replayed"] === "false";
}

export function isReplay({ status, headers }: Answer): boolean {
  return status === 201 && headers["idempotent-replayed"] === "true";
}

/** All that a replay must give back. */
export function bytesOf({ status, headers, body }: Answer): string {
  return [status, headers["content-type"], headers.location, body].join("\n");
}

/** A header that is a comma-separated list, in lower case. */
export function listOf({ headers }: Answer, name: string): string[] {
  return String(headers[name])
    .toLowerCase()
    .split(/\s*,\s*/);
}
