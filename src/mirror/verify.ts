/** Verifying, resource by resource, by counts or every record: nothing changes here or there. Section "Verifying" of docs/architecture.md. */
import type { Client } from '../api/client.ts';
import pLimit, { type LimitFunction } from 'p-limit';
import { FileError, IncompleteError, OperatorError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { earliest, isSameTime, type Timestamp, timestampOf } from '../model/time.ts';
import type { StoredKnownRecord, Window } from '../store/mirror-types.ts';
import { sharedFailure } from './failures.ts';
import {
  type ComparePorts,
  compareWindow,
  countWindows,
  differingCount,
  type DifferingCount,
  differs,
  Findings,
  isRough,
  mostSuspicious,
  serverTotal,
} from './verify-window.ts';
import { counted, grouped } from '../model/text.ts';
import { KeyRefused, NotTheApi, Unreachable } from '../api/errors.ts';
import { coverageOf, outsideEra, owns } from '../model/era.ts';
import { storedCapabilities } from './capability-record.ts';

type VerifyPorts = Omit<ComparePorts, 'resource' | 'capabilities'> & Pick<Client, 'counters'>;

export interface VerifyRequest {
  readonly resources: readonly ResourceName[];
  /** Every record is compared; else the counts, and the records of windows whose counts differ. */
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
  /** Every row was seen on the server at or after this time: what changed there since then is a difference. */
  readonly fresh_as_of: Timestamp | null;
  readonly resources: Partial<Record<ResourceName, ResourceVerdict>>;
}

export interface VerifyResult {
  readonly report: VerifyReport;
  /** Why not everything could be compared; null where it was, or where differences were found. */
  readonly error: OperatorError | null;
  /** Windows in which records differ: the next sync is to compare them. */
  readonly differing: readonly Window[];
}

/** Compares the resources with the server. Only bugs and a damaged mirror are thrown; all else is in the result. */
export async function verify(ports: VerifyPorts, request: VerifyRequest): Promise<VerifyResult> {
  const { clock, signal } = ports;
  const startedAt = timestampOf(clock.now());
  if (request.deep) ports.store.checkSoundness();
  const limit = pLimit(request.concurrency);
  const ends = await Promise.all(
    request.resources.map(async (resource) => {
      const end = await verifyResource({ ...ports, resource, limit, deep: request.deep });
      const { status, problem } = end.verdict;
      ports.progress({ kind: 'end', resource, status, problem });
      return end;
    }),
  );
  // Nothing that a damaged mirror says of the server is worth reporting.
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

type VerifyResourcePorts = Omit<ComparePorts, 'capabilities'> & {
  /** Shared by all resources: the windows that are looked at at the same time. */
  readonly limit: LimitFunction;
  readonly deep: boolean;
};

type Ports = VerifyResourcePorts & Pick<ComparePorts, 'capabilities'>;

/** What is known so far, so that a comparison that is broken off reports what it has found. */
class Course {
  readonly findings = new Findings();
  readonly counts: DifferingCount[] = [];
  readonly problems: string[] = [];
  readonly differing: Window[] = [];
  windows = 0;
  rough = 0;
  total: number | null = null;
  /** The sums differ, and no records that were compared show why. */
  unexplained = false;
  /** A window showed nothing, and neither did the list show any record that is known to live. */
  isSilent = false;
}

/** Compares one resource. Problems and a stop are its result, with what was found by then; it rejects for a bug. */
async function verifyResource(ports: VerifyResourcePorts): Promise<VerifyEnd> {
  const { store, resource, signal } = ports;
  const course = new Course();
  let error: OperatorError | null = null;
  try {
    const stored = storedCapabilities(store, resource);
    const windows = store.windows(resource);
    if (stored === undefined || windows.length === 0) {
      course.problems.push(`the mirror has never read the ${resource}`);
    } else {
      const all = { ...ports, capabilities: stored.capabilities };
      course.total = await serverTotal(all);
      await (ports.deep ? compareRecords(all, windows, course) : compareCounts(all, windows, course));
    }
  } catch (thrown) {
    if (!signal.aborted && !(thrown instanceof OperatorError)) throw thrown;
    error = signal.aborted ? null : (thrown as OperatorError);
    course.problems.push(signal.aborted ? 'interrupted' : (thrown as OperatorError).message);
  }
  return { verdict: verdictOf(ports, course), error, differing: course.differing };
}

async function compareCounts(ports: Ports, windows: readonly Window[], course: Course): Promise<void> {
  const { store, resource } = ports;
  const counts = await countWindows(ports, windows);
  const differing = counts.filter(differs);
  course.windows = windows.length;
  course.rough = counts.filter(isRough).length;
  course.counts.push(...differing.map(differingCount));
  await compareWindows(
    ports,
    differing.map(({ window }) => window),
    course,
  );
  // A sync that goes on beside changes the number of rows: the total is requested again where the sums differ.
  const accounted = () => store.accountedCount(resource);
  const explained = () => accounted() + course.findings.missing.size - course.findings.extra.size;
  if (course.total !== explained()) course.total = await serverTotal(ports);
  const rest = windows.filter((window) => !differing.some((count) => count.window === window));
  for (const window of [...mostSuspicious(rest, counts), ...outsideOf(ports, windows)]) {
    if (course.total === explained() || course.problems.length > 0) break;
    await compareWindows(ports, [window], course);
  }
  course.unexplained = !course.isSilent && course.total !== explained();
  if (course.problems.length > 0 || course.findings.size > 0) return;
  // Another server may count as many: its records are compared where the newest that is known is not there as it was.
  const [newest] = store.knownRecords(resource, 'newest', 1);
  if (newest === undefined || (await isThere(ports, newest))) return;
  await compareWindows(
    ports,
    windows.filter((window) => owns(window, newest.createdAt)),
    course,
  );
}

async function isThere({ source, resource, signal }: Ports, { id, createdAt }: StoredKnownRecord): Promise<boolean> {
  const found = await source.look(resource, id, signal);
  return found.kind === 'unknown' || (found.kind === 'found' && isSameTime(found.createdAt, createdAt));
}

async function compareRecords(ports: Ports, windows: readonly Window[], course: Course): Promise<void> {
  const { store, resource } = ports;
  ports.progress({ kind: 'expected', resource, records: course.total ?? 0 });
  await compareWindows(ports, windows, course);
  course.windows = windows.length;
  const { findings } = course;
  /** Records that the server must have, if nothing but what was found is different. */
  const explained = () =>
    store.liveCount(resource) - findings.extra.size + findings.missing.size + findings.hidden.size;
  course.total = await serverTotal(ports);
  if (course.problems.length > 0 || course.total === explained()) return;
  await compareWindows(ports, outsideOf(ports, windows), course);
  course.total = await serverTotal(ports);
  const found = explained();
  if (course.total === found || course.problems.length > 0) return;
  course.problems.push(
    `the server counts ${counted(course.total, 'record')} and its pages showed ${found}; it may be written to while it is read`,
  );
}

/** What no range of days shows, as a window, for a mirror that has none: only a look at everything finds it. */
function outsideOf({ resource }: Ports, windows: readonly Window[]): Window[] {
  if (windows.some((window) => coverageOf(window) !== 'days')) return [];
  const unread = { state: 'pending', serverTotal: null, pagesRead: 0, freshAsOf: null, problem: null } as const;
  return [{ resource, ...outsideEra, ...unread }];
}

/** Compares the records of the windows, side by side. A window that cannot be compared is a problem; a lost server ends it. */
async function compareWindows(ports: Ports, windows: readonly Window[], course: Course): Promise<void> {
  const lost: unknown[] = [];
  await Promise.all(
    windows.map((window) =>
      ports.limit(async () => {
        if (lost.length > 0) return;
        try {
          const { findings, problem, isSilent = false } = await compareWindow(ports, window);
          course.findings.add(findings);
          course.isSilent ||= isSilent;
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

/** Whether the next window may be compared although this one could not be. */
function isPassing(error: unknown): error is OperatorError {
  const isFinal = [KeyRefused, Unreachable, NotTheApi, FileError].some((kind) => error instanceof kind);
  return error instanceof OperatorError && !isFinal;
}

/** A resource's part of the response of `verify`. */
export type ResourceVerdict = ReturnType<typeof verdictOf>;

function verdictOf({ store, resource }: VerifyResourcePorts, course: Course) {
  const { findings, counts, problems, total, windows, rough, unexplained } = course;
  const differs = findings.size > 0 || unexplained;
  const [first = null] = problems;
  return {
    status: differs ? ('different' as const) : first === null ? ('equal' as const) : ('incomplete' as const),
    live: store.liveCount(resource),
    /** Null where the server could not be reached. */
    server_total: total,
    fresh_as_of: store.freshAsOf(resource),
    /** Windows that were compared, by their numbers of records, or by the records themselves. */
    windows,
    /** How many of them by numbers that leave room for a few records: the server's rules are not known exactly. */
    rough_windows: rough,
    // A difference that the records did not confirm was gone when they were read.
    differing_windows: differs || first !== null ? counts : [],
    ...findings.listed(),
    problem: problems.length > 1 ? `${first} (and ${problems.length - 1} more)` : first,
  };
}

/** How old what was compared is. */
export function sinceWords({ fresh_as_of: asOf }: VerifyReport): string {
  return asOf === null
    ? 'Not all of the mirror was ever read whole.'
    : `The mirror is as of ${asOf}: what changed on the server since then counts as a difference.`;
}

/** What is wrong with the resource, a line for each kind. @param most ids and windows that are named of a kind */
export function findingsOf(each: ResourceVerdict, most: number): string[] {
  const listOf = (title: string, items: readonly string[], separator = ', '): string[] => {
    if (items.length === 0) return [];
    const rest = items.length > most ? `${separator}and ${grouped(items.length - most)} more` : '';
    return [`${title} (${grouped(items.length)}): ${items.slice(0, most).join(separator)}${rest}`];
  };
  const { missing, extra, different, differing_windows: counts, problem } = each;
  const listed = missing.length + extra.length + different.length;
  const unexplained = each.status === 'different' && listed === 0;
  return [
    ...listOf('windows whose numbers differ', counts.map(countWords), '; '),
    ...listOf('missing, on the server only', missing.map(String)),
    ...listOf('extra, in the mirror only', extra.map(String)),
    ...listOf(
      'different',
      different.map(({ id, fields }) => `${id} (${fields.join(', ')})`),
    ),
    ...(unexplained ? ['the numbers differ, and no window shows by which record'] : []),
    ...(problem === null ? [] : [`not compared: ${problem}`]),
  ];
}

function countWords({ from, to, server, mirror }: DifferingCount): string {
  const rows = typeof mirror === 'number' ? grouped(mirror) : mirror.map((each) => grouped(each)).join(' to ');
  return `${from}..${to} has ${grouped(server)} on the server, ${rows} in the mirror`;
}
