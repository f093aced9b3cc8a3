// `npm run load` hands these over (`--vus 100` becomes VUS); `k6 run -e VUS=100` does the same by hand.

export const BASE_URL = text("BASE_URL", "http://127.0.0.1:8787").replace(/\/+$/, "");
/** Of seeds/demo.sql. */
export const API_KEY = text("API_KEY", "demo_acme_b3f1c2d4e5a60718");
/** As `npm start` and `npm run load` have it. */
export const ADMIN_TOKEN = text("ADMIN_TOKEN", "local-operator-token");

export function text(name: string, fallback: string): string {
  return __ENV[name] ?? fallback;
}

/** @throws when it is set to something else: k6 then ends before it has sent anything. */
export function positive(name: string, fallback: number): number {
  const value = Number(__ENV[name] ?? fallback);
  if (!(value > 0)) throw new Error(`${name} must be a number above 0, not ${__ENV[name]}`);
  return value;
}
