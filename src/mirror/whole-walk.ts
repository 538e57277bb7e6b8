/** Walks of a window until it is settled: several passes, united where one alone does not show everything. */
import { walkOnce, type Unstable, type Verdict, type WalkPorts } from './walk.ts';

/** Times that a window is walked before it is cut, or left for another run. */
const attempts = 3;

/** Passes in a row without a new record, after which no other is expected. */
const idlePasses = 4;

/** The same where the order changes with every request: each of them may miss a record with a chance of one in four. */
const idleShuffled = 8;

/** What to walk with, for pages of that size. */
type PortsOf = (pageSize: number) => WalkPorts;

/**
 * Walks the window until a walk is consistent, so many times at the most. Passes over a list that holds still are united:
 * where its order changes from request to request, each of them has the same chance to miss a record, so a few dozen
 * find the last one; and where two of them show the same records in an order that is kept, there are no others to be shown.
 * @param before what earlier passes have shown, to go on from
 */
export async function walkWindow(
  portsOf: PortsOf,
  pageSize: number,
  most: number,
  passes = attempts,
  before?: Unstable,
): Promise<Verdict> {
  let verdict: Verdict = before ?? (await walkOnce(portsOf(pageSize), most));
  for (let pass = 1; pass < passes && verdict.kind === 'unstable'; pass += 1) {
    // Pages that end elsewhere show what hid between two of them.
    const size: number = verdict.shown?.crossing && pass % 2 === 1 ? Math.max(1, Math.floor(pageSize * 0.7)) : pageSize;
    const ports = portsOf(size);
    // Another pass would show nothing else.
    if ((verdict.shown?.idle ?? 0) >= (ports.isOrdered ? idlePasses : idleShuffled)) break;
    const next = await walkOnce(ports, most, verdict.shown?.end);
    verdict = next.kind === 'unstable' ? unite(verdict, next, ports.isOrdered) : next;
  }
  return verdict;
}

function unite(before: Unstable, now: Unstable, isOrdered: boolean): Verdict {
  const [a, b] = [before.shown, now.shown];
  // Where records came or went, what was seen before no longer adds up with what is seen now.
  if (a === undefined || b === undefined || before.total !== now.total) return now;
  const { startedAt } = a;
  const { total } = now;
  const seen = a.seen.union(b.seen);
  const isSame = seen.size === a.seen.size && seen.size === b.seen.size;
  const crossing = a.crossing || b.crossing;
  const idle = seen.size > a.seen.size ? 0 : a.idle + 1;
  // By chance, two passes in different orders may miss the same record.
  const isAll = isOrdered || !crossing ? isSame && (!b.crossing || a.perPage !== b.perPage) : idle >= idleShuffled;
  if (seen.size === total || isAll) {
    return { kind: 'settled', total, seen, startedAt, surplus: total - seen.size, past: b.end.past };
  }
  return { ...now, shown: { ...b, seen, startedAt, crossing, idle } };
}

/** Passes over a window that cannot be cut and whose order changes with every request, before it is left as it is. */
const collectPasses = 40;

/** What is left to try with a window that cannot be cut: read it though it is large, unite what many passes show. */
export async function walkUncut(portsOf: PortsOf, pageSize: number, verdict: Verdict): Promise<Verdict> {
  const walked = verdict.kind === 'large' ? await walkWindow(portsOf, pageSize, Infinity) : verdict;
  if (walked.kind !== 'unstable' || walked.shown === undefined) return walked;
  return walkWindow(portsOf, pageSize, Infinity, collectPasses, walked);
}
