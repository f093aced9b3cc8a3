import { Stripe } from "stripe";

import type { Config } from "../env.ts";
import type { Provider } from "./charge.ts";
import type { StripeSandbox } from "./sandbox/sandbox.ts";

/** The sandbox takes any test key; this one says where it comes from in whatever it may turn up in. */
const SANDBOX_KEY = "sk_test_sandbox";
/** One object is one provider: its charges, its keys and its books are in one place. */
const SANDBOX_NAME = "stripe";
/** A try again is the ledger's to make, under the same key and within the lease; the client would do so behind its back. */
const MAX_NETWORK_RETRIES = 0;

type SandboxNamespace = DurableObjectNamespace<StripeSandbox>;
type Settings = Pick<Config, "stripeSecretKey" | "stripeApiBase">;

/**
 * The official Stripe client: of the real API where STRIPE_SECRET_KEY is set, else of the embedded sandbox. How long a
 * call may take is said with each call (`timeout`, ms).
 */
export function stripeOf(settings: Settings, sandbox: SandboxNamespace): Stripe {
  const { stripeSecretKey, stripeApiBase } = settings;
  if (stripeSecretKey === undefined) {
    return new Stripe(SANDBOX_KEY, {
      ...clientOptions((url, init) => sandbox.getByName(SANDBOX_NAME).fetch(url, init)),
    });
  }
  return new Stripe(stripeSecretKey, {
    // Looked up with each call, and called on no object, as the runtime demands.
    ...clientOptions((url, init) => fetch(url, init)),
    ...(stripeApiBase !== undefined && addressOf(stripeApiBase)),
  });
}

/** What of a request, or of the cron, tells which provider it is. */
interface Scope {
  env: Pick<Env, "SANDBOX">;
  var: { config: Config };
}

export function providerOf({ env, var: { config } }: Scope): Provider {
  return { stripe: stripeOf(config, env.SANDBOX), timeoutMs: config.providerTimeoutMs };
}

export function booksOf({ env, var: { config } }: Scope) {
  return sandboxOf(config, env.SANDBOX);
}

/** The sandbox's books, for the operator and the audit. Undefined where a real key is configured: then it is out of reach. */
export function sandboxOf(
  { stripeSecretKey }: Settings,
  sandbox: SandboxNamespace,
): DurableObjectStub<StripeSandbox> | undefined {
  return stripeSecretKey === undefined ? sandbox.getByName(SANDBOX_NAME) : undefined;
}

type Fetch = (url: string, init?: RequestInit) => Promise<Response>;

function clientOptions(send: Fetch) {
  return {
    httpClient: Stripe.createFetchHttpClient(send as typeof fetch),
    maxNetworkRetries: MAX_NETWORK_RETRIES,
    // Latency figures of this service are nobody else's business.
    telemetry: false,
  };
}

function addressOf(base: string) {
  const { protocol, hostname, port } = new URL(base);
  const scheme = protocol === "http:" ? ("http" as const) : ("https" as const);
  return { protocol: scheme, host: hostname, port: port || (scheme === "http" ? 80 : 443) };
}
