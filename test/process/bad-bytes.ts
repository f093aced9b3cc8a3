import { randomUUID } from "node:crypto";

import { ACME } from "../../scripts/demo-shop.ts";

/** Requests that HTTP, JSON or this API does not allow, byte by byte (latin1), under what is wrong with each. */
export const badBytes = {
  "NUL in the key": order("a\0b"),
  "a byte over 0x7f in the key": order("a\xFFb"),
  "DEL in the key": order("a\x7Fb"),
  "a tab in the key": order("a\tb"),
  "a bare CR in the key": order("a\rb"),
  "a bare LF in the key": order("a\nb"),
  "an empty key": order(""),
  "spaces for a key": order("   "),
  "NUL in the body": order(randomUUID(), '{"items":"\0"}'),
  "a body of NUL": order(randomUUID(), "\0"),
  "a body that is not UTF-8": order(randomUUID(), '{"reference":"\xFF"}'),
  "NUL in the path": read("/orders/\0", "Accept: */*"),
  "a header name with a space": read("/healthz", "Not A Name: 1"),
  "NUL in the credentials": read("/orders", "Authorization: Bearer a\0"),
  "credentials that are not ASCII": read("/orders", "Authorization: Bearer \xFF"),
  "a path that decodes to no text": read(
    "/orders/%00%FF%zz",
    `Authorization: Bearer ${ACME.apiKey}`,
  ),
  "a negative length": read("/healthz", "Content-Length: -1"),
  "no HTTP at all": "\0\0\0\0\r\n\r\n",
};

function order(key: string, body = "{}"): string {
  return [
    "POST /orders HTTP/1.1",
    "Host: shop.test",
    "Connection: close",
    `Authorization: Bearer ${ACME.apiKey}`,
    "Content-Type: application/json",
    `Idempotency-Key: ${key}`,
    `Content-Length: ${body.length}`,
    "",
    body,
  ].join("\r\n");
}

function read(target: string, line: string): string {
  return `GET ${target} HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n${line}\r\n\r\n`;
}
