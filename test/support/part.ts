/**
 * Which part of the tests runs. `npm test` is the fast part: tests without the tag `full`, matrices pair by pair, a
 * sample of kill points. `npm run test:full`, and vitest by itself, is everything.
 */

/** Everything, with each matrix and list of kill points complete. */
export const isFull = process.env['TEST_PART'] !== 'fast';

/**
 * Whether a test file has more in full than in the fast part, by its text: then it runs in both. The others are the
 * same in both, so `.ci/run`, which runs both parts, need not run them twice.
 */
export function hasMoreInFull(text: string): boolean {
  return text.includes('/support/part.ts') || /\btags:|@module-tag/.test(text);
}

/** `npm run soak`: tests that take minutes each, complete. */
export const isSoak = process.env['SOAK'] !== undefined;

/** All cases in the full part; in the fast part this many, spread evenly, including the first and the last. */
export function sample<const T>(cases: readonly T[], count: number): readonly T[] {
  if (isFull || cases.length <= count) return cases;
  const step = count > 1 ? (cases.length - 1) / (count - 1) : 0;
  return Array.from({ length: count }, (_, at) => cases[Math.round(at * step)]).filter((each) => each !== undefined);
}

/** One choice from each list. */
type Combination<Lists extends readonly (readonly unknown[])[]> = { [At in keyof Lists]: Lists[At][number] };

/**
 * Every choice from one list with every one of the others; in the fast part the fewest that have every pair of choices
 * from two lists.
 */
export function matrix<const Lists extends readonly (readonly unknown[])[]>(...lists: Lists): Combination<Lists>[] {
  const all = lists.reduce<unknown[][]>(
    (combined, list) => combined.flatMap((choice) => list.map((more) => [...choice, more])),
    [[]],
  ) as Combination<Lists>[];
  return isFull ? all : pairwise(all);
}

/** Repeatedly takes the combination with most pairs that are still missing, the first of several with as many. */
export function pairwise<T extends readonly unknown[]>(all: readonly T[]): T[] {
  const taken: T[] = [];
  const seen = new Map<string, Set<unknown>>();
  const pairsOf = (each: T) =>
    each.flatMap((left, a) => each.slice(a + 1).map((right, b) => [`${a} ${a + 1 + b}`, left, right] as const));
  const partners = (places: string, left: unknown) => {
    // Choices are compared by identity, so that objects need no name.
    const key = `${places} ${numberOf(left)}`;
    const known = seen.get(key) ?? new Set();
    seen.set(key, known);
    return known;
  };
  const numbers = new Map<unknown, number>();
  const numberOf = (choice: unknown) => {
    const number = numbers.get(choice) ?? numbers.size;
    numbers.set(choice, number);
    return number;
  };
  for (;;) {
    let best: { readonly each: T; readonly gain: number } | undefined;
    for (const each of all) {
      const gain = pairsOf(each).filter(([places, left, right]) => !partners(places, left).has(right)).length;
      if (gain > (best?.gain ?? 0)) best = { each, gain };
    }
    if (best === undefined) return taken;
    taken.push(best.each);
    for (const [places, left, right] of pairsOf(best.each)) partners(places, left).add(right);
  }
}

/** "Soon", for what would otherwise never end or take minutes: a bound that a busy machine does not miss. */
export const soonMs = 20_000;
