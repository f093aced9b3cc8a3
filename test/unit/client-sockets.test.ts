import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

import { expect, onTestFinished, test } from "vitest";

import { createClient } from "../../src/client/client.ts";

// Goal: what fetch makes of bytes before the client sees them. Each connection gets the next answer and is closed, which
// is all that says where the answer ends.

const head = (status: string, ...headers: string[]) =>
  [`HTTP/1.1 ${status}`, "Connection: close", ...headers, "", ""].join("\r\n");
const keyed = "Idempotent-Replayed: false";
const ORDER = { id: "ord_1" };
const placed = head("201 Created", keyed) + JSON.stringify(ORDER);

async function answering(...answers: string[]) {
  const requests: string[] = [];
  const server = createServer((socket) => {
    socket.once("data", (bytes) => {
      requests.push(bytes.toString().split(" HTTP/1.1", 1)[0]!);
      socket.end(answers.shift() ?? "");
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

function placing(baseUrl: string) {
  const shop = createClient({ baseUrl, apiKey: "k", firstBackoffMs: 1 });
  return shop.operation((api) => api.orders.$post({ json: { items: [] } }));
}

test("an answer that broke off is asked for again, wherever it did", async () => {
  const broken = [
    "",
    "HTTP/1.1 201 Cre",
    head("201 Created", keyed),
    head("201 Created", keyed, "Content-Length: 20") + '{"id":',
    head("201 Created", keyed, "Transfer-Encoding: chunked") + '6\r\n{"id":\r\n',
    head("201 Created", keyed) + '{"id":"ord',
    head("204 No Content", keyed),
    head("409 Conflict", keyed, "Content-Type: application/problem+json") + '{"type":',
  ];
  const { url, requests } = await answering(...broken, placed);

  expect(await placing(url).send()).toEqual({ kind: "done", body: ORDER, isReplayed: false });
  expect(requests).toEqual(Array.from({ length: broken.length + 1 }, () => "POST /orders"));
});

test.each(["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])(
  "a redirect is not followed, neither with the key nor as a GET: %s",
  async (status) => {
    const elsewhere = await answering(placed);
    const { url, requests } = await answering(
      head(status, `Location: ${elsewhere.url}/orders`),
      head(status, `Location: ${elsewhere.url}/orders`),
    );
    const cause = { kind: "foreign", status: Number.parseInt(status, 10) };
    expect(await placing(url).send()).toMatchObject({ kind: "outcome_unknown", cause });
    const shop = createClient({ baseUrl: url, apiKey: "k" });
    const read = shop.read((api) => api.orders.$get());

    expect(await read).toMatchObject({ kind: "unavailable", cause });
    expect(requests).toEqual(["POST /orders", "GET /orders"]);
    expect(elsewhere.requests).toEqual([]);
  },
);
