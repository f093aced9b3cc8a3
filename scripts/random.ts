export type Random = ReturnType<typeof randomFrom>;

/** Numbers from 0 up to but not including 1, the same for the same seed (mulberry32). */
export function numbersFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Random choices that the seed decides, so that a run can be repeated. */
export function randomFrom(seed: number) {
  const next = numbersFrom(seed);
  /** A whole number, both ends included. */
  const between = (least: number, most: number) => least + Math.floor(next() * (most - least + 1));
  return {
    between,
    pick: <Item>(items: readonly Item[]): Item => items[between(0, items.length - 1)]!,
    /** True as often as the probability says. */
    chance: (probability: number) => next() < probability,
  };
}
