import type { IncomingHttpHeaders } from "node:http";

import type { ExpectedStatusesObject, Params } from "k6/http";

import { type Message, send } from "../../process/http.ts";
import { add } from "./metrics.ts";
import { onlyKnown, requireRunning, tagsOf, type VuState } from "./vu-state.ts";

const PARAMS = new Set(["headers", "tags", "responseType", "redirects"]);

/** k6/http, as far as the scripts use it: no request blocks, no redirect is followed, bodies are text. */
export function requestsOf(state: VuState) {
  async function asyncRequest(method: string, url: unknown, body?: unknown, given?: Params | null) {
    requireRunning(state, "asyncRequest()");
    const { headers = {}, tags = {} } = paramsOf(given);
    if (typeof url !== "string") throw new Error("asyncRequest() is given no address");
    if (typeof (body ?? "") !== "string") throw new Error("the stand-in sends text only");
    const message: Message = { method, headers: { ...headers } };
    if (typeof body === "string") message.body = body;

    const startedAt = performance.now();
    const { status, error, ...answer } = await send(url, message).then(
      (seen) => ({ ...seen, error: "" }),
      // As in k6: whoever asked gets an answer without a status, and goes on.
      (reason: Error) => ({ status: 0, headers: null, body: null, error: reason.message }),
    );
    const duration = performance.now() - startedAt;
    const isExpected = state.isExpected(status);
    const all = { ...tagsOf(state), method, status: String(status), ...tags };
    add(state.metrics, "http_reqs", { value: 1, tags: all });
    add(state.metrics, "http_req_failed", { value: !isExpected, tags: all });
    add(state.metrics, "http_req_duration", { value: duration, tags: all });
    return onlyKnown("a response", {
      status,
      error,
      body: answer.body,
      headers: answer.headers && canonical(answer.headers),
      timings: { duration },
    });
  }

  return {
    // oxlint-disable-next-line typescript/no-explicit-any -- the response has only what the scripts read, and says so when they read more.
    asyncRequest: asyncRequest as any,
    expectedStatuses: (...expected: (number | ExpectedStatusesObject)[]) => {
      if (expected.length === 0) throw new Error("expectedStatuses() needs at least one");
      return ((status: number) =>
        expected.some((one) =>
          typeof one === "number" ? one === status : one.min <= status && status <= one.max,
        )) as never;
    },
    setResponseCallback: (callback: unknown) => {
      state.isExpected = callback as VuState["isExpected"];
    },
  };
}

function paramsOf(given: Params | null | undefined) {
  const params = { ...given };
  const unknown = Object.keys(params).filter((name) => !PARAMS.has(name));
  if (unknown.length > 0)
    throw new Error(`asyncRequest() has unknown params: ${unknown.join(", ")}`);
  if (params.responseType !== "text") throw new Error('the stand-in needs responseType "text"');
  if (params.redirects !== 0) throw new Error("the stand-in needs redirects: 0");
  for (const [name, value] of Object.entries(params.headers ?? {})) {
    if (typeof value !== "string") throw new Error(`the header ${name} is not a string`);
  }
  return params;
}

/** Go's way to write them, by which k6's scripts have to read them: `Retry-After`, `Www-Authenticate`. */
function canonical(headers: IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name.replaceAll(/(^|-)[a-z]/g, (letter) => letter.toUpperCase()),
      [value].flat().join(", "),
    ]),
  );
}
