import type { Context } from "hono";
import { html } from "hono/html";

import { PROBLEMS, type ProblemCode } from "./problems.ts";

const page = (title: string, content: unknown) =>
  html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width" />
        <title>${title}</title>
        <style>
          body {
            font:
              1rem/1.5 system-ui,
              sans-serif;
            max-width: 44rem;
            margin: 3rem auto;
            padding: 0 1rem;
          }
          code {
            background: #8882;
            border-radius: 0.2rem;
            padding: 0.1rem 0.3rem;
          }
          table {
            border-collapse: collapse;
          }
          td,
          th {
            text-align: left;
            padding: 0.3rem 1rem 0.3rem 0;
            border-bottom: 1px solid #8884;
          }
          :root {
            color-scheme: light dark;
          }
        </style>
      </head>
      <body>
        ${content}
      </body>
    </html>`;

/** What a problem's `type` resolves to: what happened and what to do (RFC 9457 §3.1.1). */
export function problemPage(c: Context, code: string) {
  if (!Object.hasOwn(PROBLEMS, code)) return undefined;
  const { title, status, retryable, advice } = PROBLEMS[code as ProblemCode];
  const content = html`<h1>${title}</h1>
    <p><code>${code}</code>, HTTP ${status}</p>
    <p>${advice.split("`").map((part, i) => (i % 2 === 1 ? html`<code>${part}</code>` : part))}</p>
    <p>
      ${
        retryable
          ? "Sending the same request again under the same key can help."
          : "Sending the same request again does not help."
      }
    </p>
    <p><a href="/problems">All problems</a></p>`;
  return c.html(page(title, content));
}

export function problemIndex() {
  const codes = Object.keys(PROBLEMS) as ProblemCode[];
  return page(
    "Problems",
    html`<h1>Problems</h1>
      <table>
        <tr>
          <th>code</th>
          <th>status</th>
          <th>can a retry help?</th>
        </tr>
        ${codes.map(
          (code) =>
            html`<tr>
              <td><a href="/problems/${code}">${code}</a></td>
              <td>${PROBLEMS[code].status}</td>
              <td>${PROBLEMS[code].retryable ? "yes" : "no"}</td>
            </tr>`,
        )}
      </table>`,
  );
}
