/** A measure, and how much of it went on in how many milliseconds. */
export type Measures<Name extends string> = Record<Name, () => Promise<number>>;

export interface Ratio {
  median: number;
  /** Between these are the middle half of all rounds. */
  low: number;
  high: number;
}

/**
 * Takes all measures in turn, again and again, so that whatever else the machine does meets all of them. Each round begins
 * with another one. The first round warms up and is not counted.
 */
export async function interleave<Name extends string>(
  rounds: number,
  measures: Measures<Name>,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(measures) as Name[];
  const seen = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<
    Name,
    number[]
  >;
  for (let round = 0; round <= rounds; round++) {
    const first = round % names.length;
    for (const name of [...names.slice(first), ...names.slice(0, first)]) {
      const ms = await measures[name]();
      if (round > 0) seen[name].push(ms);
    }
  }
  return seen;
}

/** How many times as long something took as something else in the same round. */
export function ratioOf(measured: readonly number[], base: readonly number[]): Ratio {
  const ratios = measured
    .map((ms, round) => ms / base[round]!)
    .toSorted((one, other) => one - other);
  return {
    median: quantile(ratios, 0.5),
    low: quantile(ratios, 0.25),
    high: quantile(ratios, 0.75),
  };
}

export function medianOf(measured: readonly number[]): number {
  return quantile(
    measured.toSorted((one, other) => one - other),
    0.5,
  );
}

/** The other way round: of durations, that is how much more gets done in the same time. */
export function inverse({ median, low, high }: Ratio): Ratio {
  return { median: 1 / median, low: 1 / high, high: 1 / low };
}

function quantile(sorted: readonly number[], share: number): number {
  const position = (sorted.length - 1) * share;
  const below = sorted[Math.floor(position)]!;
  const above = sorted[Math.ceil(position)]!;
  return below + (above - below) * (position - Math.floor(position));
}
