/**
 * Every state that a model can reach, breadth first, so that the first state that breaks an invariant is reached with the fewest
 * steps. A state is its key, as canonical JSON. Of visited states, 53 bits of a hash are kept.
 */

export interface Model<S> {
  readonly name: string;
  readonly initial: S;
  /** What may happen next, in plain words, and the state that it leads to. */
  moves(state: S): Iterable<readonly [story: string, next: S]>;
  /** Canonical JSON: the same for states that differ only in the order of things that are alike. */
  key(state: S): string;
  /** The name of an invariant that does not hold; null if all do. */
  broken(state: S): string | null;
  /** Nothing is left to do. From every state, such a state must be reachable. */
  isAtRest(state: S): boolean;
}

export interface Explored {
  readonly model: string;
  readonly states: number;
  readonly moves: number;
  /** The most steps from the beginning. */
  readonly depth: number;
  readonly violation: { readonly invariant: string; readonly story: readonly string[] } | null;
}

/** The invariant that every model must keep besides its own. */
export const noDeadEnd = 'no_dead_end';

/** A list of numbers that needs little memory. */
class Numbers {
  #values = new Int32Array(1 << 12);
  length = 0;

  add(value: number): void {
    if (this.length === this.#values.length) {
      const more = new Int32Array(this.length * 2);
      more.set(this.#values);
      this.#values = more;
    }
    this.#values[this.length] = value;
    this.length += 1;
  }

  at(index: number): number {
    return this.#values[index] ?? -1;
  }
}

/** Explores the whole model. Throws if it has more states than `mostStates`. */
export function explore<S>(model: Model<S>, mostStates = 4_000_000): Explored {
  const numbers = new Map<number, number>();
  const [parents, from, to, ends] = [new Numbers(), new Numbers(), new Numbers(), new Numbers()];
  /** Retold from the beginning, because on the way things that are alike may have changed places. */
  const storyOf = (last: number): string[] => {
    const path: number[] = [];
    for (let at = last; parents.at(at) >= 0; at = parents.at(at)) path.unshift(at);
    let state = JSON.parse(JSON.stringify(model.initial)) as S;
    return path.map((number) => {
      for (const [story, reached] of model.moves(state)) {
        const own = JSON.parse(JSON.stringify(reached)) as S;
        if (numbers.get(hashOf(model.key(reached))) !== number) continue;
        state = own;
        return story;
      }
      throw new Error('a state is reached by no move');
    });
  };
  const result = (depth: number, invariant: string | null, state: number): Explored => ({
    model: model.name,
    states: parents.length,
    moves: from.length,
    depth,
    violation: invariant === null ? null : { invariant, story: storyOf(state) },
  });

  const first = model.key(model.initial);
  numbers.set(hashOf(first), 0);
  parents.add(-1);
  let level: (readonly [number: number, key: string])[] = [[0, first]];
  let depth = 0;
  for (; level.length > 0; depth += 1) {
    const next: (readonly [number, string])[] = [];
    for (const [number, key] of level) {
      const state = JSON.parse(key) as S;
      if (model.isAtRest(state)) ends.add(number);
      for (const [, reached] of model.moves(state)) {
        const reachedKey = model.key(reached);
        const hash = hashOf(reachedKey);
        let target = numbers.get(hash);
        if (target === undefined) {
          target = parents.length;
          if (target >= mostStates) throw new Error(`${model.name} has more than ${mostStates} states`);
          numbers.set(hash, target);
          parents.add(number);
          const invariant = model.broken(reached);
          if (invariant !== null) return result(depth + 1, invariant, target);
          next.push([target, reachedKey]);
        }
        from.add(number);
        to.add(target);
      }
    }
    level = next;
  }
  const lost = firstWithoutEnd(parents.length, from, to, ends);
  return result(depth - 1, lost === undefined ? null : noDeadEnd, lost ?? 0);
}

/** Replays a story. Returns the invariant that breaks with its last step, and the first step that cannot be taken. */
export function replay<S>(
  model: Model<S>,
  story: readonly string[],
): { broken: string | null; stuckAt: string | null } {
  let state = model.initial;
  for (const step of story) {
    const found = [...model.moves(state)].find(([each]) => each === step);
    if (found === undefined) return { broken: null, stuckAt: step };
    [, state] = found;
  }
  return { broken: model.broken(state), stuckAt: null };
}

/** The first state from which no end can be reached. */
function firstWithoutEnd(states: number, from: Numbers, to: Numbers, ends: Numbers): number | undefined {
  // The moves, grouped by the state that they lead to.
  const [before, begin] = [new Int32Array(to.length), new Int32Array(states + 1)];
  for (let at = 0; at < to.length; at += 1) begin[to.at(at) + 1] = (begin[to.at(at) + 1] ?? 0) + 1;
  for (let at = 0; at < states; at += 1) begin[at + 1] = (begin[at + 1] ?? 0) + (begin[at] ?? 0);
  const free = begin.slice();
  for (let at = 0; at < to.length; at += 1) {
    const place = free[to.at(at)] ?? 0;
    free[to.at(at)] = place + 1;
    before[place] = from.at(at);
  }
  const leadsOn = new Uint8Array(states);
  const waiting: number[] = [];
  for (let at = 0; at < ends.length; at += 1) waiting.push(ends.at(at));
  for (const end of waiting) leadsOn[end] = 1;
  for (let state = waiting.pop(); state !== undefined; state = waiting.pop()) {
    for (let at = begin[state] ?? 0; at < (begin[state + 1] ?? 0); at += 1) {
      const earlier = before[at] ?? 0;
      if (leadsOn[earlier] === 1) continue;
      leadsOn[earlier] = 1;
      waiting.push(earlier);
    }
  }
  const lost = leadsOn.indexOf(0);
  return lost < 0 ? undefined : lost;
}

/** 53 bits of the text: two rounds of 32, mixed with different factors. */
function hashOf(text: string): number {
  let [a, b] = [0xde_ad_be_ef, 0x41_c6_ce_57];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    a = Math.imul(a ^ code, 2_654_435_761);
    b = Math.imul(b ^ code, 1_597_334_677);
  }
  a = Math.imul(a ^ (a >>> 16), 2_246_822_507) ^ Math.imul(b ^ (b >>> 13), 3_266_489_909);
  b = Math.imul(b ^ (b >>> 16), 2_246_822_507) ^ Math.imul(a ^ (a >>> 13), 3_266_489_909);
  return 4_294_967_296 * (2_097_151 & b) + (a >>> 0);
}
