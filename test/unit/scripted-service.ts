import { vi } from "vitest";

import { type ClientOptions, createClient } from "../../src/client/client.ts";
import { problemBody } from "../../src/problem.ts";
import { type ProblemCode, PROBLEMS } from "../../src/problems.ts";

export const API_KEY = "test_secret";

/** What every answer has that is about a key. */
const KEYED = { "idempotent-replayed": "false" };

/** What happens to one try. */
export type Reply = (request: Request) => Promise<Response>;

/** What one try carried, and when it was sent. */
interface Try {
  atMs: number;
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string;
}

/** An answer of a keyed route. */
export const done =
  (body: unknown, { isReplayed = false, status = 201 } = {}): Reply =>
  async () =>
    Response.json(body, { status, headers: { "idempotent-replayed": String(isReplayed) } });

/** A problem as the service renders it; `isKeyed: false` is one that was met before the key was looked at. */
export const problem =
  (
    code: ProblemCode,
    {
      isKeyed = true,
      headers = {},
      ...members
    }: { isKeyed?: boolean; headers?: Record<string, string>; [member: string]: unknown } = {},
  ): Reply =>
  async () =>
    new Response(JSON.stringify(problemBody("req_1", code, members)), {
      status: PROBLEMS[code].status,
      headers: {
        "content-type": "application/problem+json",
        ...(isKeyed && KEYED),
        ...headers,
      },
    });

/** What a gateway says in the service's place. */
export const page =
  (status: number, headers: Record<string, string> = {}): Reply =>
  async () =>
    new Response("<h1>Gateway</h1>", {
      status,
      headers: { "content-type": "text/html", ...headers },
    });

export const connectionLost: Reply = async () => {
  throw new TypeError("fetch failed");
};

/** What the service's answer is when it is not as it was sent: cut short, or by another hand. */
export const garbled =
  (status: number, body: string | null, headers: Record<string, string> = KEYED): Reply =>
  async () =>
    new Response(body, { status, headers });

/** Says nothing, until the client hangs up. */
export const silence: Reply = ({ signal }) =>
  new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error));
  });

/** Begins to answer, and goes on as `body` has it. */
export const begins =
  (body: ReadableStream): Reply =>
  async () =>
    new Response(body, {
      status: 201,
      headers: { "content-type": "application/json", ...KEYED },
    });

/** A client of a service whose answers are given, in order; more tries than that go unanswered. Its waits are not spread. */
export function scriptedService(replies: Reply[], options: Partial<ClientOptions> = {}) {
  const start = Date.now();
  const tries: Try[] = [];
  const script = [...replies];
  const fetch = async (request: Request) => {
    tries.push({
      atMs: Date.now() - start,
      method: request.method,
      url: request.url,
      headers: Object.fromEntries(request.headers),
      body: await request.clone().text(),
    });
    return (script.shift() ?? connectionLost)(request);
  };
  const client = createClient({
    baseUrl: "http://shop.test",
    apiKey: API_KEY,
    fetch,
    random: () => 1,
    ...options,
  });
  return {
    client,
    tries,
    waitsMs: () => tries.slice(1).map((one, i) => one.atMs - tries[i]!.atMs),
  };
}

/** Lets time pass, as far as anybody waits for it. */
export async function settled<Result>(promise: Promise<Result>): Promise<Result> {
  // Handled from the start: it may reject while the time passes.
  promise.catch(() => undefined);
  await vi.runAllTimersAsync();
  return promise;
}
