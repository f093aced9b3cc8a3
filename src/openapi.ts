import { type OpenAPIHono, z } from "@hono/zod-openapi";

import type { ProblemCode } from "./problems.ts";
import { answerHeaders, named, problemResponses } from "./route-answers.ts";
import type { AppEnv } from "./scope.ts";

const DESCRIPTION = `Orders and payments that survive retries.

**One key per operation.** Every POST takes an \`Idempotency-Key\`. Make it once, before the first try, and send the same
bytes under it until you have an answer: it has acted exactly once, and every final answer is the same, byte
for byte (\`Idempotent-Replayed\` says which one is a replay), for as long as the deployment keeps keys: a day, unless it says
otherwise. After that the key may be forgotten, and the same request is a new operation.

**When to send it again.** No answer, or a problem whose \`retryable\` is true: the same request, the same key, after
\`Retry-After\` if there is one. Any other problem is final for its key, or was refused before the key was claimed: mend
the request.

**Problems** are \`application/problem+json\` (RFC 9457). Compare \`error\`, which does not change; \`type\` leads to a page
that says what to do. Each answer below lists its codes and whether a retry can help. An address that is not in this
document answers 404 \`not_found\`; a method that an address does not have answers 405 \`method_not_allowed\` with \`Allow\`
(HEAD goes where GET does). A retry helps neither. A deployment may answer \`idempotency_key_reused\` with 409 instead of 422.

**Every answer** has an \`X-Request-Id\`: that of the request if it brought one (up to 255 letters, digits, \`_\`, \`-\` or
\`=\`), or else a new one.`;

const TAGS = [
  { name: "orders", description: "Place, cancel, read and pay." },
  { name: "payments", description: "Read and refund." },
  { name: "products", description: "The account's own catalogue." },
  { name: "idempotency-keys", description: "What became of a key." },
  { name: "webhooks", description: "For the payment provider." },
  { name: "operator", description: "For whoever runs the service." },
  { name: "pages", description: "For people. No API key is needed." },
];

export const openApiDocument = (origin: string) => ({
  openapi: "3.1.0",
  info: {
    title: "idempotent-orders",
    version: "1",
    description: DESCRIPTION,
    license: { name: "MIT", identifier: "MIT" },
  },
  servers: [{ url: origin }],
  tags: TAGS,
});

/** The pages for people, which are mounted beside the routes. */
export function describePages(registry: OpenAPIHono<AppEnv>["openAPIRegistry"]): void {
  const page = (
    path: string,
    summary: string,
    { type = "text/html", problems = [] }: { type?: string; problems?: ProblemCode[] } = {},
  ) => {
    const schema = { type: type === "text/html" ? ("string" as const) : ("object" as const) };
    registry.registerPath({
      method: "get",
      path,
      ...named("get", path),
      tags: ["pages"],
      summary,
      security: [],
      ...(path.includes("{code}") && { request: { params: z.object({ code: z.string() }) } }),
      responses: {
        200: { description: "OK", headers: answerHeaders, content: { [type]: { schema } } },
        ...problemResponses(problems),
      },
    });
  };
  page("/", "Where to begin", { type: "application/json" });
  page("/openapi.json", "This document", { type: "application/json" });
  page("/docs", "This document, to be read");
  page("/problems", "Every error, with a link to its page");
  page("/problems/{code}", "What an error means, and what to do", { problems: ["not_found"] });
}

export function securitySchemes(registry: OpenAPIHono<AppEnv>["openAPIRegistry"]): void {
  registry.registerComponent("securitySchemes", "account", {
    type: "http",
    scheme: "bearer",
    description: "An account's API key.",
  });
  registry.registerComponent("securitySchemes", "webhook", {
    type: "apiKey",
    in: "header",
    name: "stripe-signature",
    description: "The provider's signature over the raw body.",
  });
  registry.registerComponent("securitySchemes", "operator", {
    type: "http",
    scheme: "bearer",
    description: "ADMIN_TOKEN. The operator's routes are not there where it is not set.",
  });
}
