/** Decides which request fails and how: faults that a test asks for one by one, then those that are drawn. */
import { UsageError } from '../model/errors.ts';
import { suggestion } from '../model/nearest.ts';
import type { HttpMethod } from '../model/operations.ts';
import type { Behaviour } from './behaviour.ts';
import { type Fault, isFault, readFaultNames, readFaults, writeFaultNames, writeFaults } from './fault-kinds.ts';
import type { Random } from './random.ts';

/** A fault for the next requests that match; without `match`, for the very next ones. */
export interface ScriptedFault {
  readonly fault: Fault;
  /** How many requests it hits; 1 where not given. */
  readonly times?: number;
  readonly match?: {
    readonly method?: HttpMethod;
    /** A text that the path and query must contain, decoded; or a pattern that they must match. */
    readonly path?: string | RegExp;
  };
}

interface Pending {
  readonly fault: Fault;
  readonly method: HttpMethod | undefined;
  readonly path: string | RegExp | undefined;
  left: number;
}

/** Addresses whose run of faults is remembered. */
const mostStreaks = 20_000;

function decoded(url: string): string {
  try {
    return decodeURIComponent(url);
  } catch {
    return url;
  }
}

function checked(fault: ScriptedFault): Pending {
  if (!isFault(fault.fault)) {
    const known = [...new Set([...readFaultNames, ...writeFaultNames])];
    const name = String(fault.fault);
    throw new UsageError(`the sandbox knows no fault called "${name}"`, { advice: suggestion(name, known) });
  }
  return { fault: fault.fault, method: fault.match?.method, path: fault.match?.path, left: fault.times ?? 1 };
}

export class Faults {
  readonly #chance: Random;
  #pending: Pending[] = [];
  readonly #streaks = new Map<string, number>();
  #requests = 0;
  #drawn = 0;

  constructor(chance: Random) {
    this.#chance = chance;
  }

  /** Asks for exact faults. They come before any that is drawn, in the order in which they were asked for. */
  script(faults: readonly ScriptedFault[]): void {
    this.#pending.push(...faults.map(checked));
  }

  /** Takes back the faults that have been asked for and not come yet. */
  clear(): void {
    this.#pending = [];
  }

  #scripted(method: HttpMethod, url: string): Fault | null {
    const text = decoded(url);
    const found = this.#pending.find(
      (each) =>
        (each.method === undefined || each.method === method) &&
        (each.path === undefined || (typeof each.path === 'string' ? text.includes(each.path) : each.path.test(text))),
    );
    if (found === undefined) return null;
    found.left -= 1;
    if (found.left <= 0) this.#pending = this.#pending.filter((each) => each !== found);
    return found.fault;
  }

  #draw(method: HttpMethod, behaviour: Behaviour, isList: boolean): Fault | null {
    // One draw whatever the switches are: another probability does not shift the draws that follow.
    let draw = this.#chance.fraction();
    if (method === 'GET') {
      for (const name of readFaultNames) {
        draw -= behaviour[`read_${name}`];
        if (draw < 0) return name === 'empty_list' && !isList ? null : name;
      }
    } else {
      for (const name of writeFaultNames) {
        draw -= behaviour[`write_${name}`];
        if (draw < 0) return name;
      }
    }
    return null;
  }

  /** How the next request fails, or null where it does not. */
  next(method: HttpMethod, url: string, isList: boolean, behaviour: Behaviour): Fault | null {
    this.#requests += 1;
    const scripted = this.#scripted(method, url);
    if (scripted !== null) return scripted;
    const drawn = this.#draw(method, behaviour, isList);
    const request = `${method} ${url}`;
    const streak = this.#streaks.get(request) ?? 0;
    const allowed =
      (behaviour.fault_every <= 1 || this.#requests % behaviour.fault_every === 0) &&
      (behaviour.fault_limit === 0 || this.#drawn < behaviour.fault_limit) &&
      (behaviour.fault_streak === 0 || streak < behaviour.fault_streak);
    if (drawn === null || !allowed) {
      this.#streaks.delete(request);
      return null;
    }
    if (this.#streaks.size > mostStreaks) this.#streaks.clear();
    this.#streaks.set(request, streak + 1);
    this.#drawn += 1;
    return drawn;
  }
}

/** What a fault does, in words. */
export function faultMeaning(fault: Fault): string {
  return fault in writeFaults
    ? writeFaults[fault as keyof typeof writeFaults]
    : readFaults[fault as keyof typeof readFaults];
}
