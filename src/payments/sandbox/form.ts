/** Parameters as Stripe nests them in a form: `metadata[a]=1`. A list is an object whose names are its positions. */
export interface Params {
  [name: string]: string | Params;
}

const NAME = /^([^[\]]+)((?:\[[^[\]]*\])*)$/;
/** Deeper than anything in Stripe's API that is spoken here. */
const MAX_DEPTH = 4;

/** Decodes a body or a query string. Null when a name is not well formed, or stands for a value and for an object. */
export function decodeForm(encoded: string): Params | null {
  const params = emptyParams();
  for (const [name, value] of new URLSearchParams(encoded)) {
    const path = pathOf(name);
    if (path === null || !put(params, path, value)) return null;
  }
  return params;
}

function pathOf(name: string): string[] | null {
  const [, first, rest] = NAME.exec(name) ?? [];
  if (first === undefined || rest === undefined) return null;
  const path = [first, ...Array.from(rest.matchAll(/\[([^\]]*)\]/g), ([, inner]) => inner!)];
  return path.length <= MAX_DEPTH ? path : null;
}

function put(params: Params, path: readonly string[], value: string): boolean {
  let at = params;
  for (const name of path.slice(0, -1)) {
    const next = (at[name] ??= emptyParams());
    if (typeof next === "string") return false;
    at = next;
  }
  // `expand[]=a&expand[]=b` is a list too; its positions are not written out.
  const last = path.at(-1)! || String(Object.keys(at).length);
  if (typeof at[last] === "object") return false;
  at[last] = value;
  return true;
}

/** No prototype: a parameter may bear any name, `__proto__` among them. */
function emptyParams(): Params {
  return Object.create(null) as Params;
}
