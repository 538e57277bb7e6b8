/**
 * How many requests a run may send, whatever the server answers. Section "The cost of a run" of docs/architecture.md.
 */
import { coverageOf, type DayRange } from '../model/era.ts';
import { OperatorError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';

/** The run has sent all the requests that it may send; what it has read is kept, and the next run goes on. */
export class SpentError extends OperatorError {
  override readonly name = 'SpentError';
  override readonly exitCode = 5;
}

/** Pages come and go, and the ends of windows are found by reading: a third more than there were. */
const margin = 1.3;
/** For what is asked beside pages: who the server is, what it can do, sums. */
const extra = 50;

/** What asks for leave before each request; retries of it among them. */
export interface RequestGate {
  /** Takes leave for one request. Throws a SpentError where there is none left. */
  take(resource: ResourceName | null): void;
  /** Takes leave for one more try, where there is any left. */
  mayRetry(resource: ResourceName | null): boolean;
}

/** A stretch of records that a run reads, with how many the server counts in it. */
export type Stretch = DayRange & { readonly records: number };

/**
 * The requests of one run: for each resource, 1.3 times the pages of the windows that it reads; for all together, the
 * budget and 50. A resource that uses more than its own takes from what is common, and never from another.
 */
export class Allowance implements RequestGate {
  readonly #budget: number;
  #common: number;
  readonly #own = new Map<ResourceName, { stretches: Stretch[]; pages: number; left: number }>();
  #sent = 0;

  /** @param budget `sync.requests_per_run` */
  constructor(budget: number) {
    this.#budget = budget;
    this.#common = budget + extra;
  }

  /**
   * Adds the pages of what is to be read. A stretch counts once, with the most records that were told of it, and so does
   * any part of it.
   */
  allow(resource: ResourceName, read: readonly Stretch[], pageSize: number): void {
    const own = this.#ownOf(resource);
    for (const stretch of read) {
      const at = own.stretches.findIndex((each) => contains(each, stretch));
      const known = own.stretches[at];
      if (known === undefined) own.stretches.push(stretch);
      else if (contains(stretch, known) && stretch.records > known.records) own.stretches[at] = stretch;
    }
    const pages = own.stretches.reduce((sum, { records }) => sum + Math.max(1, Math.ceil(records / pageSize)), 0);
    own.left += margin * Math.max(0, pages - own.pages);
    own.pages = Math.max(own.pages, pages);
  }

  /** Requests that the resource may still send. */
  left(resource: ResourceName): number {
    return Math.floor(this.#ownOf(resource).left) + this.#common;
  }

  take(resource: ResourceName | null): void {
    if (this.mayRetry(resource)) return;
    throw new SpentError(
      `this run has sent the ${this.#sent} requests that it may send, and leaves the rest to the next`,
      {
        advice: `Run \`admin-mirror sync\` again; with a larger sync.requests_per_run (${this.#budget}) a run may send more.`,
      },
    );
  }

  mayRetry(resource: ResourceName | null): boolean {
    const own = resource === null ? undefined : this.#ownOf(resource);
    if (own !== undefined && own.left >= 1) own.left -= 1;
    else if (this.#common >= 1) this.#common -= 1;
    else return false;
    this.#sent += 1;
    return true;
  }

  #ownOf(resource: ResourceName) {
    let own = this.#own.get(resource);
    if (own === undefined) this.#own.set(resource, (own = { stretches: [], pages: 0, left: 0 }));
    return own;
  }
}

/** Whether all of the inner lies in the outer; what no range of days shows is apart from the days. */
function contains(outer: DayRange, inner: DayRange): boolean {
  const [a, b] = [coverageOf(outer), coverageOf(inner)];
  return a === b ? outer.from <= inner.from && inner.to <= outer.to : a === 'everything';
}
