/**
 * What may be wrong, as a code and facts, and the one table of its words. The command line, the console, alerts and JSON all use it.
 * Alerts leave the machine, so the facts of what they tell hold nothing in the words of the server or of a file.
 */
import { type ExitCode, worstOf } from '../model/errors.ts';
import type { Job } from '../model/job.ts';
import { counted } from '../model/text.ts';
import { durationText, minuteOf, secondMs, type Timestamp } from '../model/time.ts';
import type { MirrorStatus } from '../mirror/open-status.ts';
import type { RunReport, WindowCause } from '../store/mirror-types.ts';
import type { Facts, JobFacts } from './facts.ts';
import type { Check, Freshness, JournalHealth, MirrorHealth, OpenBatch } from './store/health.ts';
import type { JobRun, RunOutcome } from './store/port.ts';

interface FactsOf {
  /** The settings of a server cannot be used. */
  readonly settings: { readonly message: string; readonly advice: string };
  readonly no_mirror: { readonly message: string; readonly advice: string };
  readonly shared_store: { readonly message: string; readonly advice: string };
  readonly journal: { readonly message: string };
  /** Rows whose outcome is open, of a batch that no process works on. */
  readonly batch_unknown: Pick<OpenBatch, 'batch' | 'rows'>;
  /** The worker cannot write its own file. */
  readonly worker_file: { readonly message: string };
  readonly stale: { readonly resources: readonly string[]; readonly max_staleness_seconds: number };
  readonly deletions_refused: { readonly resource: string; readonly windows: number };
  /** Parts of these resources were not read whole, for one cause. `reason`: that of the first of them, in its own words. */
  readonly not_settled: {
    readonly cause: WindowCause;
    readonly resources: readonly string[];
    readonly windows: number;
    readonly reason: string | null;
  };
  readonly never_read: { readonly resources: readonly string[]; readonly is_running: boolean };
  /** The last sync, with the reasons that no window has. */
  readonly last_run: {
    readonly started_at: Timestamp;
    readonly status: string;
    readonly reasons: readonly { readonly resources: readonly string[]; readonly reason: string }[];
  };
  readonly key_refused: { readonly jobs: readonly string[] };
  readonly server_unreachable: { readonly jobs: readonly string[] };
  /** A job that did not run, failed, or left something out: `parts` says what, in a sync. */
  readonly job_failed: {
    readonly job: string;
    readonly run: string;
    readonly outcome: RunOutcome;
    readonly exit_code: number | null;
    readonly parts: readonly string[];
  };
  readonly test: Readonly<Record<string, never>>;
}

export type ProblemCode = keyof FactsOf;

/** Something that is wrong. `since`: when that began, or was noticed; null if that is not known. */
export type Problem<C extends ProblemCode = ProblemCode> = {
  readonly [Code in C]: {
    readonly code: Code;
    readonly facts: FactsOf[Code];
    readonly since: Timestamp | null;
    /** What is wrong because of it. */
    readonly effects?: readonly Problem[];
  };
}[C];

interface Words {
  /** What is wrong, and why. */
  readonly what: string;
  /** What to do, with commands in backquotes; null if there is nothing to do. */
  readonly next: string | null;
  /** For those who want to know more: the reason in its own words, perhaps with an address. */
  readonly detail?: string | null;
}

const steps = {
  doctor: 'Next: `admin-mirror doctor` shows what is wrong and where to correct it',
  status: 'Next: `admin-mirror status` shows which part and why; then run `admin-mirror sync`',
  sync: 'Next: `admin-mirror sync` reads the open parts again; if the problem stays, run `admin-mirror doctor`',
  deletions:
    'Next: look at the server; if they were deleted on purpose, `admin-mirror sync --allow-deletions` removes them here',
  log: 'Next: read the log of that run; `admin-mirror schedule --once NAME` runs a job now',
  worker: 'Next: check that the worker runs (`admin-mirror status`); the next run does what is left',
} as const;

/** The worst first. */
const words: { readonly [Code in ProblemCode]: (facts: FactsOf[Code]) => Words } = {
  settings: ({ message, advice }) => ({ what: message, next: advice }),
  no_mirror: ({ message, advice }) => ({ what: message, next: advice }),
  shared_store: ({ message, advice }) => ({ what: message, next: advice }),
  journal: ({ message }) => ({ what: message, next: steps.doctor }),
  batch_unknown: ({ batch, rows }) => {
    const counts = Object.entries(rows).filter(([, count]) => count > 0);
    const states = counts.map(
      ([state, count]) => `${count} ${state === 'needs_human' ? 'in need of a person' : state}`,
    );
    const next = `Next: \`admin-mirror bulk resume ${batch}\` looks for them again; do not send those rows in any other way`;
    return { what: `batch ${batch} has rows whose outcome is not known: ${states.join(', ')}`, next };
  },
  worker_file: ({ message }) => ({
    what: `the worker cannot write its own file: ${message}`,
    next: 'Next: free some space in the folder of the mirror, or correct its permissions',
  }),
  stale: ({ resources, max_staleness_seconds }) => {
    const names = resources.length === 0 ? 'there is no mirror' : resources.join(', ');
    const limit = durationText(max_staleness_seconds * secondMs);
    return { what: `the mirror is older than the ${limit} of worker.max_staleness: ${names}`, next: steps.sync };
  },
  deletions_refused: ({ resource, windows }) => ({
    what: `many ${resource} disappeared from the server at once, and were kept here (${counted(windows, 'window')})`,
    next: steps.deletions,
  }),
  never_read: ({ resources, is_running }) => ({
    what: `never read whole: ${resources.join(', ')}`,
    next: is_running ? 'Next: wait for the sync that is running' : steps.sync,
  }),
  not_settled: ({ cause, resources, windows, reason }) => {
    const [what, next = steps.sync] = causes[cause];
    const parts = `${counted(windows, 'part')} of ${resources.join(', ')}`;
    return { what: `${what}: ${parts} ${windows === 1 ? 'is' : 'are'} not up to date`, next, detail: reason };
  },
  last_run: ({ started_at, status, reasons }) => {
    // A run whose disk was full looks like one that was killed.
    const ended =
      status === 'failed' ? status : status === 'killed' ? 'was killed or could not write its end' : `was ${status}`;
    const why = reasons.map(({ resources, reason }) => `${resources.join(', ')}: ${reason}`).join('; ');
    const next = status === 'failed' ? steps.doctor : steps.sync;
    return { what: `the last sync, of ${minuteOf(started_at)}, ${ended}`, next, detail: why === '' ? null : why };
  },
  key_refused: ({ jobs }) => ({ what: `${jobs.join(', ')} failed: the server refused the key`, next: steps.doctor }),
  server_unreachable: ({ jobs }) => ({
    what: `${jobs.join(', ')} failed: the server could not be reached, or gave no usable response`,
    next: steps.doctor,
  }),
  job_failed: ({ job, outcome, exit_code, parts }) => {
    const [end, next] = jobEnds[outcome] ?? exitCodes[exit_code ?? -1] ?? ['failed', steps.log];
    const code = outcome === 'failed' && exit_code !== null ? ` (exit code ${exit_code})` : '';
    return { what: `${job} ${end}${code}${parts.length === 0 ? '' : `: ${parts.join(', ')}`}`, next };
  },
  test: () => ({ what: 'this is a test, nothing is wrong', next: null }),
};

/** Why parts of a list are not up to date, and what to do if it is not just another sync. */
const causes: Readonly<Record<WindowCause, readonly [what: string, next?: string]>> = {
  key_refused: ['the server refused the key', steps.doctor],
  server_unreachable: ['the server could not be reached', steps.doctor],
  server_failed: ['the server failed'],
  list_contradicts_itself: ['the server contradicts itself'],
  list_changed: ['records came and went while a list was read'],
  records_unreadable: [
    'some records cannot be read',
    'Next: report them to whoever runs the server; `admin-mirror status --verbose` names them',
  ],
  deletions_refused: ['many records disappeared at once, and were kept here', steps.deletions],
  deletions_unproven: ['records disappeared, and nothing proves that they are gone'],
  requests_spent: ['the last sync had used its requests'],
  rows_altered: ['another program has changed rows'],
  rows_differ: ['a comparison has found rows that differ'],
  not_read: ['a sync ended before it had read everything'],
};

/** What became of a job, and what to do next. */
type JobWords = readonly [end: string, next: string];

/** An outcome that is not here is no problem: the job catches up, or the job that it waited for has its own problem. */
const jobEnds: Readonly<Partial<Record<RunOutcome, JobWords>>> = {
  partial: ['was not complete', steps.status],
  locked: [
    'could not run: another run held the lock',
    'Next: wait for the other run; `admin-mirror status` shows which one it is',
  ],
  interrupted: ['was stopped by a signal', steps.worker],
  killed: ['ended because the worker died', steps.worker],
};

/** Of a job that failed. */
const exitCodes: Readonly<Record<number, JobWords>> = {
  [-1]: ['was ended by a signal, or could not be run', steps.log],
  1: ['failed because of a bug in admin-mirror', steps.log],
  2: ['was refused: wrong settings or input, or a file that cannot be used', steps.doctor],
  3: ['failed: the key was refused', steps.doctor],
  4: ['failed: the server could not be reached, or gave no usable response', steps.doctor],
  6: [
    'found a difference between the mirror and the server',
    'Next: `admin-mirror sync`, then `admin-mirror verify`; please report a difference that stays',
  ],
  8: [
    'sent something, and the outcome is unknown',
    'Next: `admin-mirror bulk status` names the batch; then run `admin-mirror bulk resume`',
  ],
};

/** Words the problem, as every face of the program shows it. */
export function wordsOf<C extends ProblemCode>({ code, facts }: Problem<C>): Words {
  return (words[code] as (facts: FactsOf[C]) => Words)(facts);
}

/** What is wrong, in one line, and since when. */
export function lineOf(problem: Problem): string {
  const { what } = wordsOf(problem);
  return problem.since === null ? what : `${what}, since ${problem.since}`;
}

/** What is wrong because of it, in one line; null if nothing is. */
export function effectsLine({ effects = [] }: Problem): string | null {
  return effects.length === 0 ? null : `so ${effects.map((each) => wordsOf(each).what).join('; ')}`;
}

/** The reasons in their own words: its own, and those of its effects. */
export function detailsOf(problem: Problem): string[] {
  const own = wordsOf(problem).detail ?? null;
  return [...(own === null ? [] : [own]), ...(problem.effects ?? []).flatMap(detailsOf)];
}

/** Identifies the problem while it lasts: `job_failed:sync`. */
export function keyOf({ code, facts }: Problem): string {
  const [subject] = ['job', 'batch', 'resource'].flatMap((name) => (name in facts ? [Object(facts)[name]] : []));
  return subject === undefined ? code : `${code}:${String(subject)}`;
}

type JudgedJob = Pick<JobFacts, 'job' | 'judged'>;

/** What problems are found in. */
export interface Judged extends Omit<Facts, 'jobs'> {
  readonly jobs: readonly JudgedJob[] | undefined;
}

/** Returns what the worker tells of. A problem that cannot be judged now stays as in `known`: an unreadable file ends none. */
export function problemsOf(
  { jobs, mirror, journal, freshness, trouble }: Judged,
  known: readonly Problem[],
): Problem[] {
  const keep = (...codes: readonly ProblemCode[]) => known.filter(({ code }) => codes.includes(code));
  return [
    ...('problem' in journal ? keep('batch_unknown') : openBatches(journal, known)),
    ...(trouble === null ? [] : [{ code: 'worker_file', facts: { message: trouble }, since: null } as const]),
    ...('problem' in mirror ? keep('stale', 'deletions_refused') : [...staleness(freshness), ...heldBack(mirror)]),
    ...(jobs === undefined ? keep('key_refused', 'server_unreachable', 'job_failed') : failedJobs(jobs, mirror)),
  ];
}

/** A job's problem ends with its next complete run; that of a sync also once a sync by hand has read everything. */
function failedJobs(jobs: readonly JudgedJob[], mirror: Check<MirrorHealth>): Problem[] {
  const read = 'found' in mirror ? mirror.found.resources : [];
  const isOver = (job: Job, run: JobRun): boolean => {
    const { operands } = job.call;
    const own = read.filter(({ resource }) => operands.length === 0 || operands.includes(resource));
    return job.run === 'sync' && own.length > 0 && own.every(({ completeAt }) => (completeAt ?? '') > endOf(run));
  };
  const failed = jobs.flatMap(({ job, judged }) =>
    judged?.outcome && judged.outcome !== 'complete' && !isOver(job, judged)
      ? [{ job, run: judged, outcome: judged.outcome }]
      : [],
  );
  const causes = Map.groupBy(failed, ({ job, run }) =>
    run.outcome === 'failed' && (job.run === 'sync' || job.run === 'verify')
      ? serverCodes[run.exitCode ?? 0]
      : undefined,
  );
  const shared = Array.from(causes, ([code, found]): Problem[] => {
    const [since = null] = found.map(({ run }) => endOf(run)).sort();
    return code === undefined ? [] : [{ code, facts: { jobs: found.map(({ job }) => job.name) }, since }];
  });
  const own = (causes.get(undefined) ?? []).map(({ job, run, outcome }): Problem => {
    const parts = outcome === 'partial' ? partsOf(run) : [];
    const facts = { job: job.name, run: run.run, outcome, exit_code: run.exitCode, parts };
    return { code: 'job_failed', facts, since: endOf(run) };
  });
  return [...shared.flat(), ...own];
}

/** What keeps a sync or a comparison from the server is one problem for all of them, by exit code. */
const serverCodes: Readonly<Record<number, 'key_refused' | 'server_unreachable'>> = {
  3: 'key_refused',
  4: 'server_unreachable',
};

const endOf = ({ finishedAt, startedAt }: JobRun): Timestamp => finishedAt ?? startedAt;

/** Whether this sync ran in that run of a job, and the mirror itself says better what became of it than the job's exit code. */
export function ranIn({ started_at }: Pick<RunReport, 'started_at'>, { job, judged }: JudgedJob): boolean {
  if (job.run !== 'sync' || judged === undefined || judged.exitCode === 3 || judged.exitCode === 4) return false;
  return judged.startedAt <= started_at && started_at <= endOf(judged);
}

/** `users partial`, `emails failed`; none if the report is not that of a sync. */
function partsOf({ report }: JobRun): string[] {
  const { resources } = (report ?? {}) as { readonly resources?: unknown };
  if (typeof resources !== 'object' || resources === null) return [];
  return Object.entries(resources as Readonly<Record<string, { readonly status?: unknown } | null>>)
    .filter(([name, each]) => /^[a-z]+$/.test(name) && (each?.status === 'partial' || each?.status === 'failed'))
    .map(([name, each]) => `${name} ${String(each?.status)}`);
}

function staleness({ is_fresh, resources, max_staleness_seconds }: Freshness): Problem[] {
  if (is_fresh) return [];
  const stale = Object.entries(resources).filter(([, each]) => !each.is_fresh);
  return [{ code: 'stale', facts: { resources: stale.map(([name]) => name), max_staleness_seconds }, since: null }];
}

function heldBack(mirror: Check<MirrorHealth>): Problem[] {
  const resources = 'found' in mirror ? mirror.found.resources : [];
  return resources.flatMap(({ resource, heldBack: windows }) =>
    windows === 0 ? [] : [{ code: 'deletions_refused', facts: { resource, windows }, since: null }],
  );
}

/** A process that works on a batch may still settle its rows. It ends no problem before it has. */
function openBatches(journal: Check<JournalHealth>, known: readonly Problem[]): Problem[] {
  const open = 'found' in journal ? journal.found.open : [];
  return open.flatMap(({ batch, rows, isInHand }): Problem[] => {
    const found: Problem = { code: 'batch_unknown', facts: { batch, rows }, since: null };
    return isInHand && !known.some((each) => keyOf(each) === keyOf(found)) ? [] : [found];
  });
}

/** Returns everything that needs a person, the worst first. @param told what the worker tells of */
export function statusProblems(mirror: MirrorStatus, told: readonly Problem[]): Problem[] {
  const order = Object.keys(words);
  const found = [...told, ...neverRead(mirror), ...notSettled(mirror, told), ...lastRuns(mirror)];
  const sorted = found.sort((one, other) => order.indexOf(one.code) - order.indexOf(other.code));
  return byCause(sorted);
}

/** One outage is one problem: what follows from it is told with it. */
function byCause(problems: readonly Problem[]): Problem[] {
  const ranks = problems.map(causeRank);
  const first = Math.min(...ranks);
  const cause = problems[ranks.indexOf(first)];
  if (cause === undefined || first === Infinity) return [...problems];
  const effects = problems.filter((each) => each !== cause && followsFrom(each, cause));
  const told = effects.length === 0 ? cause : { ...cause, effects };
  return problems.flatMap((each) => (each === cause ? [told] : effects.includes(each) ? [] : [each]));
}

/** The lower, the more follows from it; Infinity if nothing does. */
function causeRank({ code, facts }: Problem): number {
  const isUnread = code === 'not_settled' && facts.cause === 'not_read';
  const order: readonly ProblemCode[] = ['key_refused', 'server_unreachable', 'not_settled', 'last_run'];
  const rank = order.indexOf(code);
  return rank === -1 ? Infinity : isUnread ? order.length : rank;
}

const ofTheServer: readonly WindowCause[] = ['key_refused', 'server_unreachable', 'server_failed', 'not_read'];

function followsFrom({ code, facts }: Problem, cause: Problem): boolean {
  if (code !== 'not_settled') return code === 'stale' || code === 'never_read' || code === 'last_run';
  // What a run did not come to has no cause of its own.
  return cause.code === 'not_settled' ? facts.cause === 'not_read' : ofTheServer.includes(facts.cause);
}

/** Returns the exit code of `status --check`. */
export function checkCode(problems: readonly Problem[]): ExitCode {
  const codes = problems.map(({ code }) => {
    if (code === 'batch_unknown') return 8;
    return ['settings', 'no_mirror', 'shared_store', 'journal'].includes(code) ? 2 : 5;
  });
  return worstOf(codes);
}

/** Resources that were never read completely, unless a window says why. */
function neverRead({ resources, running }: MirrorStatus): Problem[] {
  const names = Object.entries(resources).flatMap(([name, { fresh_as_of, open_problems }]) =>
    fresh_as_of === null && open_problems.every(({ problem }) => problem === null) ? [name] : [],
  );
  if (names.length === 0) return [];
  const is_running = running?.command === 'sync';
  return [{ code: 'never_read', facts: { resources: names, is_running }, since: null }];
}

/** One problem for each cause. */
function notSettled({ resources, running }: MirrorStatus, told: readonly Problem[]): Problem[] {
  const open = Object.entries(resources).flatMap(([resource, { fresh_as_of, open_problems }]) => {
    // While a run works, it may be reading what has no reason; what was never read whole is a problem of its own.
    const isRead = running === null && fresh_as_of !== null;
    const windows = open_problems.filter(({ problem }) => problem !== null || isRead);
    const held = told.find(({ code, facts }) => code === 'deletions_refused' && facts.resource === resource);
    const isTold = held?.code === 'deletions_refused' && held.facts.windows >= windows.length;
    return isTold ? [] : windows.map(({ cause, problem }) => ({ resource, cause, reason: problem }));
  });
  // The cause of most of it first.
  const byCount = [...Map.groupBy(open, ({ cause }) => cause)].sort(
    ([a, one], [b, other]) => Number(a === 'not_read') - Number(b === 'not_read') || other.length - one.length,
  );
  return byCount.map(([cause, found]): Problem => {
    const resources = [...new Set(found.map(({ resource }) => resource))];
    const facts = { cause, resources, windows: found.length, reason: found[0]?.reason ?? null };
    return { code: 'not_settled', facts, since: null };
  });
}

/** The last run of each resource, if it left reasons that no window names already. */
function lastRuns({ runs, resources }: MirrorStatus): Problem[] {
  const newest = runs.find(({ status }) => status !== 'running')?.run;
  const known = new Set(Object.values(resources).flatMap((each) => each.open_problems.map(({ problem }) => problem)));
  const ends = Object.entries(resources).flatMap(([resource, { last_run: last, open_problems }]) => {
    const isExplained = last?.outcome === 'partial' && open_problems.some(({ problem }) => problem);
    return last === null || last.status === 'complete' ? [] : [{ resource, last, isExplained }];
  });
  const ended = new Map(ends.map(({ last }) => [last.run, last]));
  return [...ended.values()].flatMap(({ run, started_at, status }): Problem[] => {
    const left = ends.filter(
      ({ last, isExplained }) => last.run === run && last.problem !== null && !known.has(last.problem) && !isExplained,
    );
    const reasons = Array.from(
      Map.groupBy(left, ({ last }) => last.problem ?? ''),
      ([reason, of]) => ({ reason, resources: of.map(({ resource }) => resource) }),
    );
    const isTold = status === 'partial' && known.size > 0;
    // An older run whose resources were not read since is told of for its reasons alone.
    if (reasons.length === 0 && (run !== newest || isTold)) return [];
    return [{ code: 'last_run', facts: { started_at, status, reasons }, since: null }];
  });
}
