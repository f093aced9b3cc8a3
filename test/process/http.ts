import { once } from "node:events";
import {
  Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
} from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";

/** Enough for every test to have hundreds of requests under way, few enough for the usual limit of open files. */
const MAX_SOCKETS = 256;
const agent = new Agent({ keepAlive: true, maxSockets: MAX_SOCKETS });

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  /** Exactly as received. */
  body: string;
  /** The body parsed; empty when it is not a JSON object. */
  json: Record<string, unknown>;
}

export interface Message {
  method?: string | undefined;
  /** A list of values is sent as that many header lines. */
  headers?: Record<string, string | string[]> | undefined;
  body?: string | Uint8Array;
}

/** One request over a real socket. A string or bytes go out with their Content-Length. */
export async function send(url: string, { method, headers, body }: Message = {}): Promise<Answer> {
  const length: Message["headers"] =
    body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) };
  const sent = openRequest(url, { method, headers: { ...headers, ...length } });
  sent.request.end(body);
  return sent.answer;
}

/** A request whose body is still to be written, in chunks; `answer` resolves whenever the answer comes. */
export function openRequest(url: string, { method = "GET", headers = {} }: Omit<Message, "body">) {
  const opened = request(url, { method, headers, agent });
  const answer = answerTo(opened);
  return { request: opened, answer };
}

async function answerTo(opened: ClientRequest): Promise<Answer> {
  const [response] = (await once(opened, "response")) as [IncomingMessage];
  // An answer that comes before the whole body has been taken may cut the rest of it off.
  opened.on("error", () => undefined);
  const body = await text(response);
  const json = body.startsWith("{") ? (JSON.parse(body) as Record<string, unknown>) : {};
  return { status: response.statusCode!, headers: response.headers, body, json };
}

/** Sends bytes as they are, however wrong, and returns all that comes back until the service closes. */
export async function sendRaw(url: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  socket.end(Buffer.from(bytes, "latin1"));
  return text(socket);
}
