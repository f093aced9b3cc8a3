// The Worker with two safeguards taken out, to show that load-tests/ notices: the provider is asked under a key that
// changes with the attempt, and nothing is ever swept.
import worker, { StripeSandbox as Sandbox } from "../../src/index.ts";

/** Every second attempt has another key. With a new one each time, a payment that stalls would never come to an end. */
export class StripeSandbox extends Sandbox {
  readonly #attempts = new Map<string, number>();

  override fetch(request: Request): Promise<Response> {
    const key = request.headers.get("idempotency-key");
    if (key === null) return super.fetch(request);
    const attempt = this.#attempts.get(key) ?? 0;
    this.#attempts.set(key, attempt + 1);
    const headers = new Headers(request.headers);
    headers.set("idempotency-key", `${key}-${attempt % 2}`);
    return super.fetch(new Request(request, { headers }));
  }
}

/** To a sweep, no window has ever ended. */
function unswept(db: D1Database): D1Database {
  return new Proxy(db, {
    get: (target, name) => {
      if (name === "prepare") {
        return (sql: string) => target.prepare(sql.replaceAll(/("expires_at") < \?/g, "$1 < -?"));
      }
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function" ? (member.bind(target) as unknown) : member;
    },
  });
}

export default {
  fetch: (request, env, context) => worker.fetch(request, { ...env, DB: unswept(env.DB) }, context),
} satisfies ExportedHandler<Env>;
