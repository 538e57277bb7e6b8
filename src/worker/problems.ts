/**
 * What is wrong right now, how fresh the mirror is, and what to do next. Alerts leave the machine, so they contain only texts of this
 * program; the log and `status` also have the reasons in the words of the server or of a file.
 */
import { counted } from '../model/text.ts';
import type { ResourceName } from '../model/resources.ts';
import { durationText, parseInstant, secondMs, type Timestamp } from '../model/time.ts';
import type { JournalHealth, Check, MirrorHealth } from './store/health.ts';
import type { JobRun, Problem, ProblemKind, RunOutcome } from './store/port.ts';
import type { JobView } from './worker.ts';
import type { MirrorStatus } from '../mirror/open-status.ts';
import type { RunStatus } from '../store/mirror-types.ts';
import type { ExitCode } from '../model/errors.ts';
import type { WorkerStatus } from './open-status.ts';

export interface Facts {
  /** undefined if the worker could not read its file. */
  readonly jobs: readonly JobView[] | undefined;
  readonly mirror: Check<MirrorHealth>;
  readonly journal: Check<JournalHealth>;
  readonly freshness: Freshness;
  /** Why the worker cannot write its file; undefined if it can. */
  readonly trouble: string | undefined;
}

/** Returns the present problems. A problem that cannot be judged now stays as in `known`: an unreadable file ends none. */
export function problemsOf(facts: Facts, known: readonly Problem[]): Problem[] {
  const open = new Map(known.map((each) => [each.problem, each]));
  const keep = (...kinds: readonly ProblemKind[]) => known.filter(({ kind }) => kinds.includes(kind));
  const { jobs, mirror, journal, freshness, trouble } = facts;
  return [
    ...(jobs === undefined ? keep('job_failed', 'job_partial') : jobs.flatMap((job) => jobProblems(job, open))),
    ...('problem' in mirror ? keep('stale', 'deletions_refused') : [...staleness(freshness), ...heldBack(mirror)]),
    ...('problem' in journal ? keep('batch_unknown') : openBatches(journal, open)),
    ...(trouble === undefined
      ? []
      : [problem('worker_file', '', `the worker cannot write its own file: ${trouble}`, { next: steps.file })]),
  ];
}

function problem(kind: ProblemKind, subject: string, text: string, more: Partial<Problem> = {}): Problem {
  const none = { next: null, job: null, run: null, outcome: null, exitCode: null };
  return { ...none, problem: subject === '' ? kind : `${kind}:${subject}`, kind, text, ...more };
}

/** A job's problem ends with its next complete run. A partial run may become a failed one, but not the reverse. */
export function jobProblems(
  { job: { name }, latest }: Pick<JobView, 'job' | 'latest'>,
  known: ReadonlyMap<string, Problem>,
): Problem[] {
  const partial = known.get(`job_partial:${name}`);
  const failed = known.get(`job_failed:${name}`);
  const before = [partial, failed].filter((each) => each !== undefined);
  if (latest === undefined || latest.outcome === null) return before;
  const { run, exitCode, outcome } = latest;
  if (outcome === 'complete') return [];
  const end = outcome === 'failed' ? failureText(exitCode) : ends[outcome];
  // An outcome without a text is no problem: the job catches up, or the job that it waited for has its own problem.
  if (end === undefined || (outcome === 'partial' && failed !== undefined)) return before;
  const more = { job: name, run, outcome, exitCode, next: end.next };
  if (outcome === 'partial') return [problem('job_partial', name, `${name} ${end.text}${partsOf(latest)}`, more)];
  return [...(partial === undefined ? [] : [partial]), problem('job_failed', name, `${name} ${end.text}`, more)];
}

/** `: users partial, emails failed`; empty if the report is not that of a sync. */
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
  return [problem('stale', '', `the mirror is older than the allowed ${limit} (${names})`, { next: steps.status })];
}

function heldBack(mirror: Check<MirrorHealth>): Problem[] {
  const resources = 'found' in mirror ? mirror.found.resources : [];
  return resources
    .filter((each) => each.heldBack > 0)
    .map(({ resource, heldBack: windows }) =>
      problem(
        'deletions_refused',
        resource,
        `many ${resource} disappeared from the server at once, and were kept here (${counted(windows, 'window')})`,
        { next: steps.removals },
      ),
    );
}

/** Reports open rows of batches that no process works on. A process that works on a batch may still settle its rows. */
function openBatches(journal: Check<JournalHealth>, known: ReadonlyMap<string, Problem>): Problem[] {
  const open = 'found' in journal ? journal.found.open : [];
  return open.flatMap(({ batch, rows, isInHand }) => {
    const before = known.get(`batch_unknown:${batch}`);
    if (before !== undefined) return [before];
    if (isInHand) return [];
    const count = rows.sending + rows.acknowledged + rows.unknown + rows.needs_human;
    const what = `the outcome of ${counted(count, 'row')} of the batch ${batch} is not known`;
    return [problem('batch_unknown', batch, what, { next: steps.batch(batch) })];
  });
}

interface ResourceFreshness {
  readonly fresh_as_of: Timestamp | null;
  /** Counts from `fresh_as_of`; if there is none, from the last one that a run proved, or from the first request. */
  readonly staleness_seconds: number;
  readonly is_fresh: boolean;
}

export interface Freshness {
  readonly is_fresh: boolean;
  /** Of the stalest resource. */
  readonly staleness_seconds: number;
  readonly max_staleness_seconds: number;
  readonly resources: Readonly<Partial<Record<ResourceName, ResourceFreshness>>>;
  /** Why the mirror could not be read; null if it could. */
  readonly problem: string | null;
}

/**
 * Judges the age of the mirror. If it was never complete, the age counts from the first request, so a first sync of hours raises no
 * alarm, and a restarted worker hides none. Resources that no sync reads don't count. @param startedAt used if there is no mirror
 */
export function freshnessOf(
  mirror: Check<MirrorHealth>,
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
    // If the clock was set back, nothing may look fresher than now.
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

/** What to do next, for alerts and `status`. Commands are in backquotes, as a person types them. */
const steps = {
  doctor: 'Next: `admin-mirror doctor` shows what is wrong and where to correct it',
  status: 'Next: `admin-mirror status` shows which part and why; then run `admin-mirror sync`',
  wait: 'Next: wait for the sync that is running',
  sync: 'Next: `admin-mirror sync` reads the open parts again; if the problem stays, run `admin-mirror doctor`',
  verify: 'Next: `admin-mirror sync`, then `admin-mirror verify`; please report a difference that stays',
  removals:
    'Next: look at the server; if they were deleted on purpose, `admin-mirror sync --allow-deletions` removes them here',
  file: 'Next: free some space in the folder of the mirror, or correct its permissions',
  log: 'Next: read the log of that run; `admin-mirror schedule --once NAME` runs a job now',
  batch: (batch: string) =>
    `Next: \`admin-mirror bulk resume ${batch}\` looks for them again; do not send those rows in any other way`,
} as const;

interface RunEndText {
  readonly text: string;
  readonly next: string;
}

const exitCodeTexts: Readonly<Record<number, RunEndText>> = {
  1: { text: 'failed because of a bug in admin-mirror', next: steps.log },
  2: { text: 'was refused: wrong settings or input, or a file that cannot be used', next: steps.doctor },
  3: { text: 'failed: the server refused the key', next: steps.doctor },
  4: { text: 'failed: the server could not be reached, or gave no usable response', next: steps.doctor },
  6: { text: 'found a difference between the mirror and the server', next: steps.verify },
  8: {
    text: 'sent something, and the outcome is unknown',
    next: 'Next: `admin-mirror bulk status` names the batch; then run `admin-mirror bulk resume`',
  },
};

function failureText(exitCode: number | null): RunEndText {
  if (exitCode === null) return { text: 'was ended by a signal, or could not be run', next: steps.log };
  const { text, next } = exitCodeTexts[exitCode] ?? { text: 'failed', next: steps.log };
  return { text: `${text} (exit code ${exitCode})`, next };
}

const restart = 'Next: check that the worker runs (`admin-mirror status`); the next run does what is left';

/** For each outcome: the text behind the name of the job, and what to do next. */
const ends: Readonly<Partial<Record<RunOutcome, RunEndText>>> = {
  partial: { text: 'was not complete', next: steps.status },
  locked: {
    text: 'could not run: another run held the lock',
    next: 'Next: wait for the other run; `admin-mirror status` shows which one it is',
  },
  timed_out: {
    text: 'took longer than its timeout allows and was stopped',
    next: 'Next: raise the timeout of the job; everything that was read is kept',
  },
  interrupted: { text: 'was stopped by a signal', next: restart },
  killed: { text: 'ended because the worker died', next: restart },
  missed: { text: 'did not run: no worker was running at its time', next: restart },
};

export interface StatusProblem {
  readonly kind:
    | 'settings'
    | 'no_mirror'
    | 'shared_store'
    | 'journal'
    | 'stale'
    | 'not_settled'
    | 'last_run'
    | 'alert'
    | 'batch_unknown';
  /** What is wrong, and why. */
  readonly problem: string;
  /** What to do. Commands are in backquotes. */
  readonly next: string;
}

/** Returns everything that needs a person, the worst first. */
export function statusProblems(mirror: MirrorStatus, worker: WorkerStatus): StatusProblem[] {
  return [
    ...(worker.shared_store?.problem ? [{ kind: 'shared_store', ...worker.shared_store.problem } as const] : []),
    ...lostJournal(worker),
    ...batches(worker),
    ...staleMirror(worker),
    ...unread(mirror),
    ...windows(mirror),
    ...cutOff(mirror),
    ...lastRun(mirror),
    ...failedJobs(worker),
  ];
}

/** Returns the exit code of `status --check`. */
export function checkCode(problems: readonly StatusProblem[]): ExitCode {
  if (problems.some(({ kind }) => kind === 'batch_unknown')) return 8;
  if (problems.some(({ kind }) => ['settings', 'no_mirror', 'shared_store', 'journal'].includes(kind))) return 2;
  return problems.length === 0 ? 0 : 5;
}

function lostJournal({ journal_problem: problem }: WorkerStatus): StatusProblem[] {
  return problem === null ? [] : [{ kind: 'journal', problem, next: steps.doctor }];
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

/** Resources that were never read completely, unless a window says why. */
function unread({ resources, running }: MirrorStatus): StatusProblem[] {
  const names = Object.entries(resources).flatMap(([name, { fresh_as_of, open_problems }]) =>
    fresh_as_of === null && open_problems.every(({ problem }) => problem === null) ? [name] : [],
  );
  if (names.length === 0) return [];
  const next = running?.command === 'sync' ? steps.wait : steps.sync;
  return [{ kind: 'not_settled', problem: `never read whole: ${names.join(', ')}`, next }];
}

/** Windows without a reason: the run that read them did not get to its end. While another run works, it may be reading them. */
function cutOff({ resources, running }: MirrorStatus): StatusProblem[] {
  if (running !== null) return [];
  return Object.entries(resources).flatMap(([resource, { fresh_as_of, open_problems }]) => {
    const open = open_problems.filter(({ problem }) => problem === null).length;
    if (fresh_as_of === null || open === 0) return [];
    const was = open === 1 ? 'was not read to its end' : 'were not read to their end';
    return [{ kind: 'not_settled', problem: `${resource}: ${counted(open, 'window')} ${was}`, next: steps.sync }];
  });
}

/** One problem for each resource and reason: a wrong total may keep a hundred windows open. */
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

/** The last run that has ended, if it has reasons that no window names already. */
function lastRun({ runs, resources }: MirrorStatus): StatusProblem[] {
  const last = runs.find(({ status }) => status !== 'running');
  if (last === undefined || last.status === 'complete') return [];
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
  const ended = runEnds[last.status] ?? `was ${last.status}`;
  return [{ kind: 'last_run', problem: `the last run, of ${last.started_at}, ${ended}${why}`, next }];
}

/** A run whose disk was full looks like one that was killed. */
const runEnds: Readonly<Partial<Record<RunStatus, string>>> = {
  failed: 'failed',
  killed: 'was killed or could not write its end',
};

/**
 * What the worker would alert about now: the last runs of its jobs, whether it runs or not, and its own file. The problems above cover
 * all other kinds.
 */
function failedJobs({ alerts, jobs }: WorkerStatus): StatusProblem[] {
  const judged = new Set(jobs.flatMap(({ job }) => [`job_failed:${job}`, `job_partial:${job}`]));
  // Only a worker ends the alert of a job that was removed.
  const others = alerts.filter(
    ({ kind, problem }) => ['job_failed', 'job_partial', 'worker_file'].includes(kind) && !judged.has(problem),
  );
  return [...jobs.flatMap(({ problems }) => problems), ...others].map(({ text, since, next }) => ({
    kind: 'alert',
    problem: `${text}, since ${since}`,
    next: next ?? steps.log,
  }));
}
