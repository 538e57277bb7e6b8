/**
 * Compares the mirror with the server, by counts or by every record, and changes neither. Section "Verifying" of
 * docs/architecture.md.
 */
import type { Client } from '../api/operations.ts';
import pLimit, { type LimitFunction } from 'p-limit';
import { FileError, IncompleteError, OperatorError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { earliest, type Timestamp, timestampOf } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';
import { sharedFailure } from './failures.ts';
import { type ComparePorts, compareWindow, Findings } from './verify-window.ts';
import { counted, grouped } from '../model/text.ts';
import { KeyRefused, NotTheApi, Unreachable } from '../api/errors.ts';
import { coverageOf, outsideEra } from '../model/era.ts';
import { storedProfile } from './profile.ts';
import { objectionTo } from './server-check.ts';
import { surplusOfList } from './prove.ts';
import { surplusOf } from './windows.ts';

type VerifyPorts = Omit<ComparePorts, 'resource' | 'profile'> & Pick<Client, 'counters'>;

export interface VerifyRequest {
  readonly resources: readonly ResourceName[];
  /** Whether to compare every record; else the counts, and the records of windows whose counts differ. */
  readonly deep: boolean;
  readonly concurrency: number;
}

export interface VerifyReport {
  readonly status: 'equal' | 'different' | 'incomplete' | 'interrupted';
  readonly deep: boolean;
  readonly started_at: Timestamp;
  readonly finished_at: Timestamp;
  readonly requests: number;
  readonly retries: number;
  /** Every row was seen on the server at or after this time. Later changes on the server are differences. */
  readonly fresh_as_of: Timestamp | null;
  readonly resources: Partial<Record<ResourceName, ResourceVerdict>>;
}

export interface VerifyResult {
  readonly report: VerifyReport;
  /** Why not everything could be compared; null if it could, or if differences were found. */
  readonly error: OperatorError | null;
  /** Windows in which records differ. The next sync must compare them row by row. */
  readonly differing: readonly Window[];
}

/** Compares the resources with the server. Throws only for bugs and for a damaged mirror; any other problem is in the result. */
export async function verify(ports: VerifyPorts, request: VerifyRequest): Promise<VerifyResult> {
  const { clock, signal } = ports;
  const startedAt = timestampOf(clock.now());
  if (request.deep) ports.store.checkSoundness();
  const doubt = request.deep ? null : await doubtOfServer(ports);
  const limit = pLimit(request.concurrency);
  const ends = await Promise.all(
    request.resources.map(async (resource) => {
      const end = await verifyResource({ ...ports, resource, limit, deep: request.deep, doubt });
      const { status, problem } = end.verdict;
      ports.progress({ kind: 'end', resource, status, problem });
      return end;
    }),
  );
  // A damaged mirror proves nothing about the server.
  const damage = ends.map(({ error }) => error).find((error) => error instanceof FileError);
  if (damage !== undefined) throw damage;
  const verdicts = ends.map(({ verdict }) => verdict);
  const { requests, retries } = ports.counters;
  const report: VerifyReport = {
    status: statusOf(verdicts, signal),
    deep: request.deep,
    started_at: startedAt,
    finished_at: timestampOf(clock.now()),
    requests,
    retries,
    fresh_as_of: earliest(verdicts.map((verdict) => verdict.fresh_as_of)),
    resources: Object.fromEntries(request.resources.map((name, index) => [name, verdicts[index]])),
  };
  return { report, error: errorOf(ends, report.status, signal), differing: ends.flatMap(({ differing }) => differing) };
}

/** Why the counts may be those of another server, which can have as many records; null if nothing speaks for that. */
async function doubtOfServer(ports: VerifyPorts): Promise<string | null> {
  try {
    const objection = await objectionTo(ports, null);
    return objection === null ? null : `the server ${objection}`;
  } catch (error) {
    // The comparison meets the same problem and reports it.
    if (error instanceof OperatorError || ports.signal.aborted) return null;
    throw error;
  }
}

function statusOf(verdicts: readonly ResourceVerdict[], signal: AbortSignal): VerifyReport['status'] {
  if (signal.aborted) return 'interrupted';
  if (verdicts.some(({ status }) => status === 'different')) return 'different';
  return verdicts.some(({ status }) => status === 'incomplete') ? 'incomplete' : 'equal';
}

function errorOf(
  ends: readonly VerifyEnd[],
  status: VerifyReport['status'],
  signal: AbortSignal,
): OperatorError | null {
  if (status === 'interrupted') return signal.reason instanceof OperatorError ? signal.reason : null;
  if (status !== 'incomplete') return null;
  const shared = sharedFailure(ends.map(({ error, verdict }) => ({ error, reached: verdict.server_total !== null })));
  if (shared !== undefined) return shared;
  const problems = ends.flatMap(({ verdict }) => (verdict.problem === null ? [] : [verdict.problem]));
  return new IncompleteError(`not everything could be compared: ${[...new Set(problems)].join('; ')}`, {
    advice: 'What was compared is equal. Sync what the mirror has not read, and verify again.',
  });
}

interface VerifyEnd {
  readonly verdict: ResourceVerdict;
  readonly error: OperatorError | null;
  readonly differing: readonly Window[];
}

type VerifyResourcePorts = Omit<ComparePorts, 'profile'> & {
  /** Bounds how many windows are compared at the same time, over all resources. */
  readonly limit: LimitFunction;
  readonly deep: boolean;
  /** Why equal counts would prove nothing; null if they do. */
  readonly doubt: string | null;
};

type Ports = VerifyResourcePorts & Pick<ComparePorts, 'profile'>;

/** What a comparison has found so far, to be reported even if it breaks off. */
class Course {
  readonly findings = new Findings();
  counts: readonly WindowCount[] = [];
  readonly problems: string[] = [];
  readonly differing: Window[] = [];
  windows = 0;
  total: number | null = null;
}

/** Compares one resource. Problems and a stop are part of the result, with what was found until then. Rejects only for a bug. */
async function verifyResource(ports: VerifyResourcePorts): Promise<VerifyEnd> {
  const { store, resource, signal } = ports;
  const course = new Course();
  let error: OperatorError | null = null;
  try {
    const stored = storedProfile(store, resource);
    const windows = store.windows(resource);
    if (stored === undefined || windows.length === 0) {
      course.problems.push(`the mirror has never read the ${resource}`);
    } else {
      const all = { ...ports, profile: stored.profile };
      await compareResource(all, windows, course);
      if (ports.doubt !== null) course.problems.push(ports.doubt);
    }
  } catch (thrown) {
    if (!signal.aborted && !(thrown instanceof OperatorError)) throw thrown;
    error = signal.aborted ? null : (thrown as OperatorError);
    course.problems.push(signal.aborted ? 'interrupted' : (thrown as OperatorError).message);
  }
  return { verdict: verdictOf(ports, course), error, differing: course.differing };
}

/**
 * Compares by counts, then the records of the windows whose counts differ. If these do not explain the total, or if every record is
 * to be compared, all windows are.
 */
async function compareResource(ports: Ports, windows: readonly Window[], course: Course): Promise<void> {
  const { store, resource, deep } = ports;
  course.windows = windows.length;
  course.total = await listTotal(ports);
  const { findings } = course;
  /** Whether the server counts what it must have if all differences were found. @param rows what the mirror accounts for */
  const isExplained = (rows: number): boolean => {
    const found = rows + findings.missing.size - findings.extra.size;
    return course.total === found + surplusOfList(store, resource, (course.total ?? 0) - found);
  };
  let compared: readonly Window[] = [];
  if (!deep) {
    course.counts = await countWindows(ports, windows);
    compared = course.counts.map(({ window }) => window);
    await compareWindows(ports, compared, course);
    // A sync may have changed the number of rows meanwhile.
    if (!isExplained(store.accountedCount(resource))) course.total = await listTotal(ports);
    if (isExplained(store.accountedCount(resource)) || course.problems.length > 0) return;
  }
  ports.progress({ kind: 'expected', resource, records: course.total });
  const rest = windows.filter((window) => !compared.includes(window));
  await compareWindows(ports, [...rest, ...outsideOf(ports, windows)], course);
  course.total = await listTotal(ports);
  const rows = store.liveCount(resource) + findings.hidden.size;
  if (course.problems.length > 0 || isExplained(rows)) return;
  const shown = rows + findings.missing.size - findings.extra.size;
  course.problems.push(
    `the server counts ${counted(course.total, 'record')} and its pages showed ${shown}; it may be written to while it is read`,
  );
}

function listTotal({ source, resource, profile, signal }: Ports): Promise<number> {
  return source.total(resource, null, profile, signal);
}

/** A window with another number of records on the server than rows. */
interface WindowCount {
  readonly window: Window;
  readonly server: number;
  readonly mirror: number;
}

/**
 * Counts each window of days, side by side, and returns those of which the rows do not explain the server's count: none if it is
 * not known which records a range shows.
 */
async function countWindows(ports: Ports, windows: readonly Window[]): Promise<WindowCount[]> {
  const { source, store, resource, profile, signal, limit, progress } = ports;
  if (profile.dayBounds === 'wide') return [];
  const byDays = windows.filter((window) => coverageOf(window) === 'days');
  const counts = await Promise.all(
    byDays.map((window) =>
      limit(async () => {
        const server = await source.total(resource, window, profile, signal);
        progress({ kind: 'window', resource, of: byDays.length });
        const atMidnight = profile.dayBounds === 'next_day' ? store.midnightCount(resource, window.to) : 0;
        return { window, server, mirror: store.accountedCount(resource, window) + window.surplus + atMidnight };
      }),
    ),
  );
  return counts.filter(({ server, mirror }) => server !== mirror);
}

/** Returns the window of records that no range of days shows, if the mirror has none: only reading everything finds them. */
function outsideOf({ resource }: Ports, windows: readonly Window[]): Window[] {
  if (windows.some((window) => coverageOf(window) !== 'days')) return [];
  const unread = {
    state: 'pending',
    serverTotal: null,
    pagesRead: 0,
    freshAsOf: null,
    cause: null,
    problem: null,
    surplus: 0,
  } as const;
  return [{ resource, ...outsideEra, ...unread }];
}

/**
 * Compares the records of the windows, side by side. A window that cannot be compared is a problem. Throws if the server is lost.
 */
async function compareWindows(ports: Ports, windows: readonly Window[], course: Course): Promise<void> {
  const lost: unknown[] = [];
  await Promise.all(
    windows.map((window) =>
      ports.limit(async () => {
        if (lost.length > 0) return;
        try {
          const { findings, problem } = await compareWindow(ports, window);
          course.findings.add(findings);
          if (findings.size > 0) course.differing.push(window);
          if (problem !== null) course.problems.push(`${window.from}..${window.to}: ${problem}`);
        } catch (error) {
          if (isPassing(error) && !ports.signal.aborted) {
            course.problems.push(`${window.from}..${window.to}: ${error.message}`);
          } else {
            lost.push(error);
          }
        }
      }),
    ),
  );
  if (lost.length > 0) throw lost[0];
}

/** Whether other windows may be comparable although this one is not. */
function isPassing(error: unknown): error is OperatorError {
  const isFinal = [KeyRefused, Unreachable, NotTheApi, FileError].some((kind) => error instanceof kind);
  return error instanceof OperatorError && !isFinal;
}

/** A resource's part of the report. */
export type ResourceVerdict = ReturnType<typeof verdictOf>;

function verdictOf({ store, resource }: VerifyResourcePorts, course: Course) {
  const { findings, counts, problems, total, windows } = course;
  const differs = findings.size > 0;
  const [first = null] = problems;
  return {
    status: differs ? ('different' as const) : first === null ? ('equal' as const) : ('incomplete' as const),
    live: store.liveCount(resource),
    /** Records that the server's totals were found to count and no page shows. */
    surplus: surplusOf(store.windows(resource)),
    /** Null if the server could not be reached. */
    server_total: total,
    fresh_as_of: store.freshAsOf(resource),
    /** How many windows were compared, by their numbers of records or by the records themselves. */
    windows,
    // If the records did not confirm a difference of the counts, it was gone when they were read.
    differing_windows:
      differs || first !== null
        ? counts.map(({ window: { from, to }, server, mirror }) => ({ from, to, server, mirror }))
        : [],
    ...findings.listed(),
    problem: problems.length > 1 ? `${first} (and ${problems.length - 1} more)` : first,
  };
}

/** Says how fresh the compared rows are. */
export function sinceWords({ fresh_as_of: asOf }: VerifyReport): string {
  return asOf === null
    ? 'Not all of the mirror was ever read whole.'
    : `The mirror is as of ${asOf}: what changed on the server since then counts as a difference.`;
}

/** Says what differs, one line for each kind. @param maxItems how many ids or windows a line names */
export function findingsOf(each: ResourceVerdict, maxItems: number): string[] {
  const listOf = (title: string, items: readonly string[], separator = ', '): string[] => {
    if (items.length === 0) return [];
    const rest = items.length > maxItems ? `${separator}and ${grouped(items.length - maxItems)} more` : '';
    return [`${title} (${grouped(items.length)}): ${items.slice(0, maxItems).join(separator)}${rest}`];
  };
  const { missing, extra, different, differing_windows: counts, problem } = each;
  const changed = different.map(({ id, fields }) => `${id} (${fields.join(', ')})`);
  return [
    ...listOf('windows whose numbers differ', counts.map(countWords), '; '),
    ...listOf('missing, on the server only', missing.map(String)),
    ...listOf('extra, in the mirror only', extra.map(String)),
    ...listOf('different', changed),
    ...(problem === null ? [] : [`not compared: ${problem}`]),
  ];
}

function countWords({ from, to, server, mirror }: ResourceVerdict['differing_windows'][number]): string {
  return `${from}..${to} has ${grouped(server)} on the server, ${grouped(mirror)} in the mirror`;
}
