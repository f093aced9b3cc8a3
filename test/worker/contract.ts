import { type Schema, Validator } from "@cfworker/json-schema";

import type { createApp } from "../../src/app.ts";
import { openApiDocument } from "../../src/openapi.ts";
import { PROBLEMS, type ProblemCode } from "../../src/problems.ts";
import type { Answer, Json } from "./shop.ts";
import { PATH } from "./test-mutation.ts";

// Holds what the service answers to its own OpenAPI document.

interface DocumentedResponse {
  headers: Record<string, { required?: boolean }>;
  content: Record<string, { schema: Schema; examples?: Record<string, { value: Json }> }>;
}
export interface Operation {
  operationId: string;
  security: Record<string, unknown>[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, DocumentedResponse>;
}
export interface OpenApiDocument {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema & { example?: Json }> };
}
type App = ReturnType<typeof createApp>;

/** Headers that the contract is about; the rest are a browser's, or HTTP's own. */
const CONTRACT_HEADERS = [
  "allow",
  "idempotent-replayed",
  "location",
  "preference-applied",
  "retry-after",
  "server-timing",
  "www-authenticate",
  "x-request-id",
];

const documents = new WeakMap<App, OpenApiDocument>();

/** Generated once for each app, and only when an answer is looked at. */
export function documentOf(app: App): OpenApiDocument {
  const known = documents.get(app);
  if (known !== undefined) return known;
  const text = JSON.stringify(app.getOpenAPI31Document(openApiDocument("http://shop.test")));
  const document = JSON.parse(text, closed) as OpenApiDocument;
  documents.set(app, document);
  return document;
}

/** A member that the document does not name is one that nobody documented, unless it says that there may be others. */
function closed(_name: string, value: Schema): Schema {
  const isOpen = value?.properties === undefined || value.type !== "object";
  return isOpen ? value : { additionalProperties: false, ...value };
}

function operationFor(document: OpenApiDocument, { method, url }: Request) {
  const { pathname } = new URL(url);
  const methods = Object.entries(document.paths).find(([path]) => patternOf(path).test(pathname));
  return { isKnown: methods !== undefined, operation: methods?.[1][method.toLowerCase()] };
}

// Paths in the document are tried in its order, as the router's are.
function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`);
}

/** What of an answer the document does not say, or says otherwise. */
export function departures(app: App, request: Request, answer: Answer): string[] {
  // A preflight is the browser's business, and the lab is not part of the contract.
  if (request.method === "OPTIONS" || request.url.includes("/lab/")) return [];
  // A mutation of a test's own answers whatever its test is about.
  if (request.url.endsWith(PATH) && answer.status < 400) return [];
  const document = documentOf(app);
  const { isKnown, operation } = operationFor(document, request);
  if (operation === undefined) return departuresOfNoOperation(answer, { isKnown });

  const { json } = answer;
  const code = String(json["error"]) as ProblemCode;
  // A deployment may have promised 409 for a reused key: the description says so.
  const status = code === "idempotency_key_reused" ? PROBLEMS[code].status : answer.status;
  const documented = operation.responses[status];
  if (documented === undefined) return [`${operation.operationId}: ${status} ${code}`];
  const [type] = answer.headers.get("content-type")?.split(";") ?? [];
  const content = documented.content[type ?? ""];
  if (content === undefined) return [`${operation.operationId}: ${status} ${type}`];
  const found = [
    ...departuresOfHeaders(documented, answer),
    ...(type!.endsWith("json") ? invalidities(document, content.schema, json) : []),
    ...(content.examples === undefined ? [] : departuresOfProblem(content.examples, answer)),
  ];
  return found.map((departure) => `${operation.operationId}: ${status} ${departure}`);
}

function departuresOfNoOperation({ json }: Answer, { isKnown }: { isKnown: boolean }): string[] {
  const expected = isKnown ? "method_not_allowed" : "not_found";
  return json["error"] === expected ? [] : [`an answer that no operation gives: ${expected}`];
}

function departuresOfProblem(examples: Record<string, { value: Json }>, { json }: Answer) {
  const code = String(json["error"]);
  const membersOf = (problem: Json) => Object.keys(problem).toSorted().join();
  const forms = Object.values(examples)
    .filter(({ value }) => value["error"] === code)
    .map(({ value }) => membersOf(value));
  if (forms.length === 0) return [code];
  const members = membersOf(json);
  return forms.includes(members) ? [] : [`${code} has ${members}, not ${forms.join(" or ")}`];
}

function departuresOfHeaders({ headers }: DocumentedResponse, answer: Answer): string[] {
  const required = Object.keys(headers).filter((name) => headers[name]!.required);
  return [
    ...CONTRACT_HEADERS.filter((name) => answer.headers.has(name) && !(name in headers)),
    ...required.filter((name) => !answer.headers.has(name)).map((name) => `no ${name}`),
  ];
}

function invalidities({ components }: OpenApiDocument, schema: Schema, json: Json): string[] {
  const { errors } = new Validator({ ...schema, components }, "2020-12").validate(json);
  return errors.map(({ instanceLocation, error }) => `${instanceLocation} ${error}`);
}
