/**
 * What is wrong right now, how fresh the mirror is, and what to do next. Alerts are sent to others, so their words are ours alone, and
 * those of a server or a file stay in the log; `status` has the reasons.
 */
import { counted } from '../model/text.ts';
import type { ResourceName } from '../model/resources.ts';
import { durationText, parseInstant, secondMs, type Timestamp } from '../model/time.ts';
import type { JournalHealth, Look, MirrorHealth } from './store/health.ts';
import type { JobRun, Problem, ProblemKind, RunOutcome } from './store/port.ts';
import type { JobView } from './worker.ts';
import type { MirrorStatus } from '../mirror/open-status.ts';
import type { ExitCode } from '../model/errors.ts';
import type { WorkerStatus } from './open-status.ts';

export interface Facts {
  /** undefined where the worker could not look at its file. */
  readonly jobs: readonly JobView[] | undefined;
  readonly mirror: Look<MirrorHealth>;
  readonly journal: Look<JournalHealth>;
  readonly freshness: Freshness;
  /** Why the worker cannot write its file; undefined where it can. */
  readonly trouble: string | undefined;
}

/** The problems there are. What cannot be judged now stays as `known` has it: one is not over because the files cannot be read. */
export function problemsOf(facts: Facts, known: readonly Problem[]): Problem[] {
  const standing = new Map(known.map((each) => [each.problem, each]));
  const keep = (...kinds: readonly ProblemKind[]) => known.filter(({ kind }) => kinds.includes(kind));
  const { jobs, mirror, journal, freshness, trouble } = facts;
  return [
    ...(jobs === undefined ? keep('job_failed', 'job_partial') : jobs.flatMap((job) => jobProblems(job, standing))),
    ...('problem' in mirror ? keep('stale', 'deletions_refused') : [...staleness(freshness), ...heldBack(mirror)]),
    ...('problem' in journal ? keep('batch_unknown') : openBatches(journal, standing)),
    ...(trouble === undefined
      ? []
      : [problem('worker_file', '', `the worker cannot write its own file: ${trouble}`, { next: steps.file })]),
  ];
}

function problem(kind: ProblemKind, subject: string, text: string, more: Partial<Problem> = {}): Problem {
  const none = { next: null, job: null, run: null, outcome: null, exitCode: null };
  return { ...none, problem: subject === '' ? kind : `${kind}:${subject}`, kind, text, ...more };
}

/** A job's problem is over with its next complete run. From partial it may become failed, and not the other way. */
function jobProblems({ job: { name }, latest }: JobView, standing: ReadonlyMap<string, Problem>): Problem[] {
  const partial = standing.get(`job_partial:${name}`);
  const failed = standing.get(`job_failed:${name}`);
  const before = [partial, failed].filter((each) => each !== undefined);
  if (latest === undefined || latest.outcome === null) return before;
  const { run, exitCode, outcome } = latest;
  if (outcome === 'complete') return [];
  const end = outcome === 'failed' ? failureWords(exitCode) : ends[outcome];
  // One without words is caught up, or what it waited for is a problem of its own.
  if (end === undefined || (outcome === 'partial' && failed !== undefined)) return before;
  const more = { job: name, run, outcome, exitCode, next: end.next };
  if (outcome === 'partial') return [problem('job_partial', name, `${name} ${end.text}${partsOf(latest)}`, more)];
  return [...(partial === undefined ? [] : [partial]), problem('job_failed', name, `${name} ${end.text}`, more)];
}

/** `: users partial, emails failed`, where the response was that of a sync. */
function partsOf({ report }: JobRun): string {
  const { resources } = (report ?? {}) as { readonly resources?: unknown };
  if (typeof resources !== 'object' || resources === null) return '';
  const parts = Object.entries(resources as Readonly<Record<string, { readonly status?: unknown } | null>>)
    .filter(([name, each]) => /^[a-z]+$/.test(name) && (each?.status === 'partial' || each?.status === 'failed'))
    .map(([name, each]) => `${name} ${String(each?.status)}`);
  return parts.length === 0 ? '' : `: ${parts.join(', ')}`;
}

function staleness({ is_fresh, resources, max_staleness_seconds }: Freshness): Problem[] {
  if (is_fresh) return [];
  const stale = Object.entries(resources).filter(([, each]) => !each.is_fresh);
  const names = stale.length === 0 ? 'there is no mirror' : `${stale.map(([name]) => name).join(', ')}: not fresh`;
  const limit = durationText(max_staleness_seconds * secondMs);
  return [
    problem('stale', '', `the mirror is older than the ${limit} that it may be (${names})`, { next: steps.status }),
  ];
}

function heldBack(mirror: Look<MirrorHealth>): Problem[] {
  const resources = 'found' in mirror ? mirror.found.resources : [];
  return resources
    .filter((each) => each.heldBack > 0)
    .map(({ resource, heldBack: windows }) =>
      problem(
        'deletions_refused',
        resource,
        `many ${resource} are gone from the server at once, and were kept here (${counted(windows, 'window')})`,
        { next: steps.removals },
      ),
    );
}

/** Rows that may have happened, of a batch that no process is working on: one that works on it may still settle them. */
function openBatches(journal: Look<JournalHealth>, standing: ReadonlyMap<string, Problem>): Problem[] {
  const open = 'found' in journal ? journal.found.open : [];
  return open.flatMap(({ batch, rows, isInHand }) => {
    const before = standing.get(`batch_unknown:${batch}`);
    if (before !== undefined) return [before];
    if (isInHand) return [];
    const count = rows.sending + rows.acknowledged + rows.unknown + rows.needs_human;
    const what = `the outcome of ${counted(count, 'row')} of the batch ${batch} is not known`;
    return [problem('batch_unknown', batch, what, { next: steps.batch(batch) })];
  });
}

interface ResourceFreshness {
  readonly fresh_as_of: Timestamp | null;
  /** Since its `fresh_as_of`; where it has none, since the last that a run had proven, or since the first request for it. */
  readonly staleness_seconds: number;
  readonly is_fresh: boolean;
}

export interface Freshness {
  readonly is_fresh: boolean;
  /** Of the stalest resource. */
  readonly staleness_seconds: number;
  readonly max_staleness_seconds: number;
  readonly resources: Readonly<Partial<Record<ResourceName, ResourceFreshness>>>;
  /** Why the mirror could not be looked at; null where it could. */
  readonly problem: string | null;
}

/**
 * A mirror that was never complete has its time, too, from the first request for it: a first sync of hours is no alarm, and a new
 * worker does not put it off. Resources that no sync reads don't count. @param startedAt counts where there is no mirror at all
 */
export function freshnessOf(
  mirror: Look<MirrorHealth>,
  times: { readonly startedAt: number; readonly now: number; readonly maxStalenessMs: number },
): Freshness {
  const { startedAt, now, maxStalenessMs } = times;
  const max_staleness_seconds = maxStalenessMs / secondMs;
  if ('problem' in mirror) {
    return { is_fresh: false, staleness_seconds: 0, max_staleness_seconds, resources: {}, problem: mirror.problem };
  }
  const lines = 'found' in mirror ? mirror.found.resources : [];
  const resources: Partial<Record<ResourceName, ResourceFreshness>> = {};
  let oldest = lines.length === 0 ? now - startedAt : 0;
  for (const { resource, freshAsOf, knownAt } of lines) {
    // A clock that was set back makes nothing fresher than now.
    const age = Math.max(0, now - (parseInstant(freshAsOf ?? knownAt) ?? 0));
    oldest = Math.max(oldest, age);
    resources[resource] = {
      fresh_as_of: freshAsOf,
      staleness_seconds: age / secondMs,
      is_fresh: age <= maxStalenessMs,
    };
  }
  return {
    is_fresh: oldest <= maxStalenessMs,
    staleness_seconds: oldest / secondMs,
    max_staleness_seconds,
    resources,
    problem: null,
  };
}

/** What to do next, for alerts and for `status`: a command in backquotes, as one would type it. */
const steps = {
  doctor: 'Next: `admin-mirror doctor` says what is wrong and where to set it',
  status: 'Next: `admin-mirror status` says which part and why; then `admin-mirror sync`',
  sync: 'Next: `admin-mirror sync` reads again what is open; where it stays, `admin-mirror doctor`',
  verify: 'Next: `admin-mirror sync`, then `admin-mirror verify`; what stays is worth a report',
  removals:
    'Next: look at the server; where they are gone on purpose, `admin-mirror sync --allow-deletions` removes them here',
  file: 'Next: make room, or mend the permissions, in the folder of the mirror',
  log: 'Next: read the log of that run; `admin-mirror schedule --once NAME` runs a job now',
  batch: (batch: string) =>
    `Next: \`admin-mirror bulk resume ${batch}\` looks again; do not send those rows by other means`,
} as const;

interface EndWords {
  readonly text: string;
  readonly next: string;
}

const codes: Readonly<Record<number, EndWords>> = {
  1: { text: 'failed because of a bug in admin-mirror', next: steps.log },
  2: { text: 'was refused: wrong settings or input, or a file that cannot be used', next: steps.doctor },
  3: { text: 'failed: the server refused the key', next: steps.doctor },
  4: { text: 'failed: the server could not be reached, or gave no usable response', next: steps.doctor },
  6: { text: 'found a difference between the mirror and the server', next: steps.verify },
  8: {
    text: 'sent something, and the outcome is unknown',
    next: 'Next: `admin-mirror bulk status` names the batch; go on with `admin-mirror bulk resume`',
  },
};

function failureWords(exitCode: number | null): EndWords {
  if (exitCode === null) return { text: 'was ended by a signal, or could not be run', next: steps.log };
  const { text, next } = codes[exitCode] ?? { text: 'failed', next: steps.log };
  return { text: `${text} (exit code ${exitCode})`, next };
}

const restart = 'Next: see that the worker runs (`admin-mirror status`); the next run goes on where this one was';

/** What is to be read behind the name of a job that ended so, and what to do next. */
const ends: Readonly<Partial<Record<RunOutcome, EndWords>>> = {
  partial: { text: 'was not complete', next: steps.status },
  locked: {
    text: 'did nothing: another run held the lock',
    next: 'Next: wait for the other run, or see which it is with `admin-mirror status`',
  },
  timed_out: {
    text: 'took longer than its timeout allows and was stopped',
    next: 'Next: raise the timeout of the job; what was read is kept',
  },
  interrupted: { text: 'was stopped by a signal', next: restart },
  killed: { text: 'ended with the worker, which died', next: restart },
  missed: { text: 'did not run: no worker was running at its time', next: restart },
};

export interface StatusProblem {
  readonly kind:
    | 'settings'
    | 'no_mirror'
    | 'shared_store'
    | 'stale'
    | 'not_settled'
    | 'last_run'
    | 'alert'
    | 'batch_unknown';
  /** What is wrong, and why. */
  readonly problem: string;
  /** What to do, a command in backquotes in it. */
  readonly next: string;
}

/** Everything that needs a person, the worst first; nothing where all is well. */
export function statusProblems(mirror: MirrorStatus, worker: WorkerStatus): StatusProblem[] {
  return [
    ...(worker.shared_store?.problem ? [{ kind: 'shared_store', ...worker.shared_store.problem } as const] : []),
    ...batches(worker),
    ...staleMirror(worker),
    ...unread(mirror),
    ...windows(mirror),
    ...lastRun(mirror),
    ...alerts(worker),
  ];
}

/** What `status --check` ends with. */
export function checkCode(problems: readonly StatusProblem[]): ExitCode {
  if (problems.some(({ kind }) => kind === 'batch_unknown')) return 8;
  if (problems.some(({ kind }) => ['settings', 'no_mirror', 'shared_store'].includes(kind))) return 2;
  return problems.length === 0 ? 0 : 5;
}

function batches({ open_batches }: WorkerStatus): StatusProblem[] {
  return open_batches
    .filter((each) => !each.is_in_hand)
    .map(({ batch, rows }) => {
      const counts = Object.entries(rows).filter(([, count]) => count > 0);
      const words = counts
        .map(([state, count]) => `${count} ${state === 'needs_human' ? 'in need of a person' : state}`)
        .join(', ');
      const problem = `batch ${batch} has rows whose outcome is not known: ${words}`;
      return { kind: 'batch_unknown', problem, next: steps.batch(batch) };
    });
}

function staleMirror({ freshness }: WorkerStatus): StatusProblem[] {
  const { is_fresh, max_staleness_seconds, problem, resources } = freshness;
  if (is_fresh) return [];
  const limit = durationText(max_staleness_seconds * secondMs);
  const names = Object.entries(resources).flatMap(([name, each]) => (each.is_fresh ? [] : [name]));
  const old = `the mirror is older than the ${limit} of worker.max_staleness${names.length === 0 ? '' : `: ${names.join(', ')}`}`;
  return [{ kind: 'stale', problem: problem ?? old, next: problem === null ? steps.sync : steps.doctor }];
}

/** What was never read whole, and has no window that says why. */
function unread({ resources }: MirrorStatus): StatusProblem[] {
  const names = Object.entries(resources).flatMap(([name, { fresh_as_of, open_problems }]) =>
    fresh_as_of === null && open_problems.length === 0 ? [name] : [],
  );
  if (names.length === 0) return [];
  return [{ kind: 'not_settled', problem: `never read whole: ${names.join(', ')}`, next: steps.sync }];
}

/** One for each resource and reason: a wrong total may keep a hundred windows open. */
function windows({ resources }: MirrorStatus): StatusProblem[] {
  return Object.entries(resources).flatMap(([resource, { open_problems }]) => {
    const reasons = Map.groupBy(
      open_problems.filter((each) => each.problem !== null),
      ({ problem }) => problem ?? '',
    );
    return [...reasons].map(([reason, found]): StatusProblem => {
      const [first] = found;
      const more = found.length === 1 ? '' : `, and ${counted(found.length - 1, 'more window')}`;
      const where = first === undefined ? '' : ` ${first.from}..${first.to}${more}`;
      const next = reason.includes('--allow-deletions') ? steps.removals : steps.sync;
      return { kind: 'not_settled', problem: `${resource}${where}: ${reason}`, next };
    });
  });
}

/** The reasons that no window tells already. */
function lastRun({ runs: [last], resources }: MirrorStatus): StatusProblem[] {
  if (last === undefined || last.status === 'complete' || last.finished_at === null) return [];
  const reported = new Set(
    Object.values(resources).flatMap((each) => each.open_problems.map(({ problem }) => problem)),
  );
  const reasons = Map.groupBy(
    Object.entries(last.resources).filter(([, { problem }]) => problem !== null && !reported.has(problem)),
    ([, { problem }]) => problem ?? '',
  );
  const words = [...reasons].map(([reason, found]) => `${found.map(([name]) => name).join(', ')}: ${reason}`);
  if (words.length === 0 && last.status === 'partial' && reported.size > 0) return [];
  const why = words.length === 0 ? '' : ` (${words.join('; ')})`;
  const next = last.status === 'failed' ? steps.doctor : steps.sync;
  const ended = last.status === 'failed' ? 'failed' : `was ${last.status}`;
  return [{ kind: 'last_run', problem: `the last run, of ${last.started_at}, ${ended}${why}`, next }];
}

/** What the worker has told and is not over; the rest of it is told above, as it is now. */
function alerts({ alerts: open }: WorkerStatus): StatusProblem[] {
  const others = open.filter(({ kind }) => kind === 'job_failed' || kind === 'job_partial' || kind === 'worker_file');
  return others.map(({ text, since, next }) => ({
    kind: 'alert',
    problem: `${text}, since ${since}`,
    next: next ?? steps.log,
  }));
}
