import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

import { type Message, send } from "../process/http.ts";

/**
 * A service whose every replay has one byte more than what was stored, and which hangs up on whoever asks for the path
 * `silent`. It listens until it is closed.
 */
export async function startTamperingProxy(service: string, { silent = "none" } = {}) {
  const server = createServer((request, response) => {
    void (async () => {
      if (request.url === silent) {
        request.socket.destroy();
        return;
      }
      const message: Message = { method: request.method, headers: endToEnd(request.headers) };
      const body = await buffer(request);
      if (body.length > 0) message.body = body;
      const answer = await send(`${service}${request.url!}`, message);
      const isReplay = answer.headers["idempotent-replayed"] === "true";
      response.writeHead(answer.status, endToEnd(answer.headers));
      response.end(isReplay ? `${answer.body} ` : answer.body);
    })();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** They are about one connection, or about a length that changes. */
const NOT_HANDED_ON = new Set([
  "connection",
  "content-length",
  "host",
  "keep-alive",
  "transfer-encoding",
]);

function endToEnd(headers: IncomingHttpHeaders) {
  const entries = Object.entries(headers).filter(([name]) => !NOT_HANDED_ON.has(name));
  return Object.fromEntries(entries) as Record<string, string | string[]>;
}
