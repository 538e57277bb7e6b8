/**
 * Finds what is wrong (pure): `problemsOf` what the worker tells of, `statusProblems` everything. Alerts leave the machine, so what
 * the worker tells of holds nothing in the words of the server or of a file.
 */
import type { MirrorStatus } from '../mirror/open-status.ts';
import { type ExitCode, worstOf } from '../model/errors.ts';
import type { Job } from '../model/job.ts';
import type { Timestamp } from '../model/time.ts';
import type { RunReport } from '../store/mirror-types.ts';
import type { Facts, JobFacts } from './facts.ts';
import { isCause, type Problem, type ProblemCode, rankOf } from './problem-words.ts';
import type { Check, JournalHealth, MirrorHealth } from './store/health.ts';
import type { JobRun } from './store/port.ts';

/** Identifies the problem while it lasts: `job_failed:sync`, `deletions_refused:users`. */
export function keyOf({ code, facts }: Problem): string {
  if ('job' in facts) return `${code}:${facts.job}`;
  if ('batch' in facts) return `${code}:${facts.batch}`;
  return code === 'deletions_refused' ? `${code}:${Object.keys(facts.parts ?? {}).join()}` : code;
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
  const found: Problem[] = [];
  const find = <C extends ProblemCode>(code: C, facts: Problem<C>['facts'], since: Timestamp | null = null) =>
    void found.push({ code, facts, since } as Problem);
  const keep = (...codes: readonly ProblemCode[]) => found.push(...known.filter(({ code }) => codes.includes(code)));
  if ('problem' in journal) keep('batch_unknown', 'batch_stopped');
  else if ('found' in journal) {
    found.push(...openBatches(journal.found, known));
    for (const each of journal.found.stopped) find('batch_stopped', each);
  }
  if (trouble !== null) find('worker_file', { message: trouble });
  if ('problem' in mirror) keep('stale', 'deletions_refused');
  else {
    const { is_fresh, resources, max_staleness_seconds } = freshness;
    const stale = Object.entries(resources).flatMap(([name, each]) => (each.is_fresh ? [] : [name]));
    if (!is_fresh) find('stale', { resources: stale, max_staleness_seconds });
    for (const { resource, heldBack } of resourcesIn(mirror)) {
      if (heldBack > 0) find('deletions_refused', { parts: { [resource]: heldBack } });
    }
  }
  if (jobs === undefined) keep('key_refused', 'server_unreachable', 'job_failed');
  else found.push(...failedJobs(jobs, mirror));
  return found;
}

const resourcesIn = (mirror: Check<MirrorHealth>) => ('found' in mirror ? mirror.found.resources : []);

/** A job's problem ends with its next complete run; that of a sync also once a sync by hand has read everything. */
function failedJobs(jobs: readonly JudgedJob[], mirror: Check<MirrorHealth>): Problem[] {
  const isOver = ({ call, run: kind }: Job, run: JobRun): boolean => {
    const own = resourcesIn(mirror).filter(
      ({ resource }) => call.operands.length === 0 || call.operands.includes(resource),
    );
    return kind === 'sync' && own.length > 0 && own.every(({ completeAt }) => (completeAt ?? '') > endOf(run));
  };
  const found = jobs.flatMap(({ job, judged: run }): Problem[] => {
    if (!run?.outcome || run.outcome === 'complete' || isOver(job, run)) return [];
    // What keeps a sync or a comparison from the server is one problem for all of them.
    const code = job.run === 'sync' || job.run === 'verify' ? serverCodes[run.exitCode ?? 0] : undefined;
    if (code !== undefined) return [{ code, facts: { jobs: [job.name] }, since: endOf(run) }];
    const parts = job.run === 'sync' && run.outcome === 'partial' ? partsOf(run) : [];
    const facts = { job: job.name, run: run.run, outcome: run.outcome, exit_code: run.exitCode, parts };
    return [{ code: 'job_failed', facts, since: endOf(run) }];
  });
  return merged(found);
}

const serverCodes: Readonly<Record<number, 'key_refused' | 'server_unreachable'>> = {
  3: 'key_refused',
  4: 'server_unreachable',
};

const endOf = ({ finishedAt, startedAt }: JobRun): Timestamp => finishedAt ?? startedAt;

/** Whether this sync ran in that run of a job, and the mirror itself says better what became of it than the job's exit code. */
export function ranIn({ started_at }: Pick<RunReport, 'started_at'>, { job, judged }: JudgedJob): boolean {
  if (job.run !== 'sync' || judged === undefined || serverCodes[judged.exitCode ?? 0] !== undefined) return false;
  return judged.startedAt <= started_at && started_at <= endOf(judged);
}

/** `users partial`, `emails failed`, of a sync. */
function partsOf({ report }: JobRun): string[] {
  const { resources = {} } = (report ?? {}) as Partial<RunReport>;
  return Object.entries(resources).flatMap(([name, { status }]) =>
    status === 'complete' ? [] : [`${name} ${status}`],
  );
}

/** A process that works on a batch may still settle its rows. It ends no problem before it has. */
function openBatches({ open }: JournalHealth, known: readonly Problem[]): Problem[] {
  return open.flatMap(({ batch, rows, isInHand }): Problem[] => {
    const found: Problem = { code: 'batch_unknown', facts: { batch, rows }, since: null };
    return isInHand && !known.some((each) => keyOf(each) === keyOf(found)) ? [] : [found];
  });
}

/** Returns everything that needs a person, the worst first. @param told what the worker tells of */
export function statusProblems(mirror: MirrorStatus, told: readonly Problem[]): Problem[] {
  const found = [...told, ...neverRead(mirror), ...openParts(mirror), ...lastRuns(mirror)];
  return withEffects(merged(found).sort((one, other) => rankOf(one) - rankOf(other)));
}

/** Unites what one cause has touched. */
function merged(problems: readonly Problem[]): Problem[] {
  const byCause = Map.groupBy(problems.filter(isCause), ({ code }) => code);
  const causes = Array.from(byCause, ([code, found]): Problem => {
    const [since = null] = found.flatMap((each) => each.since ?? []).sort();
    const jobs = found.flatMap(({ facts }) => facts.jobs ?? []);
    const parts = Object.assign({}, ...found.map(({ facts }) => facts.parts)) as Readonly<Record<string, number>>;
    return { code, facts: { jobs, parts, reason: found.flatMap(({ facts }) => facts.reason ?? [])[0] ?? null }, since };
  });
  return [...causes, ...problems.filter((each) => !isCause(each))];
}

const ofTheServer: readonly ProblemCode[] = ['key_refused', 'server_unreachable', 'server_failed'];
/** What follows from any cause; each, too, from those before it. */
const effectsOfAny: readonly ProblemCode[] = ['last_run', 'not_read', 'never_read', 'stale'];

/** One outage is one problem: what follows from it is told with it. @param problems the worst first */
function withEffects(problems: readonly Problem[]): Problem[] {
  const isEffect = ({ code }: Problem) => effectsOfAny.includes(code);
  const [cause] = [
    ...problems.filter((each) => isCause(each) && !isEffect(each)),
    ...effectsOfAny.flatMap((code) => problems.filter((each) => each.code === code)),
  ];
  if (cause === undefined) return [...problems];
  const follows = (each: Problem) =>
    each !== cause && (isEffect(each) || (ofTheServer.includes(cause.code) && ofTheServer.includes(each.code)));
  const effects = problems.filter(follows);
  const told = effects.length === 0 ? cause : { ...cause, effects };
  return problems.flatMap((each) => (each === cause ? [told] : effects.includes(each) ? [] : [each]));
}

/** Returns the exit code of `status --check`. */
export function checkCode(problems: readonly Problem[]): ExitCode {
  const codes = problems.map(({ code }) => {
    if (code === 'batch_unknown') return 8;
    return ['settings', 'no_mirror', 'other_server', 'shared_store', 'journal'].includes(code) ? 2 : 5;
  });
  return worstOf(codes);
}

/** Resources that were never read completely, unless a part of them says why. */
function neverRead({ resources, running }: MirrorStatus): Problem[] {
  const names = Object.entries(resources).flatMap(([name, { fresh_as_of, open_problems }]) =>
    fresh_as_of === null && open_problems.every(({ problem }) => problem === null) ? [name] : [],
  );
  if (names.length === 0) return [];
  return [{ code: 'never_read', facts: { resources: names, is_running: running?.command === 'sync' }, since: null }];
}

/** The causes of the parts that are not up to date. */
function openParts({ resources, running }: MirrorStatus): Problem[] {
  return Object.entries(resources).flatMap(([resource, { fresh_as_of, open_problems }]) => {
    // While a run works, it may be reading what has no reason; what was never read whole is a problem of its own.
    const isRead = running === null && fresh_as_of !== null;
    const open = open_problems.filter(({ problem }) => problem !== null || isRead);
    return Array.from(
      Map.groupBy(open, ({ cause }) => cause),
      ([code, found]): Problem => {
        const facts = { parts: { [resource]: found.length }, reason: found[0]?.problem ?? null };
        return { code, facts, since: null };
      },
    );
  });
}

/** The last run of each resource, if it left a reason that no part of the list has. */
function lastRuns({ runs, resources }: MirrorStatus): Problem[] {
  const newest = runs.find(({ status }) => status !== 'running')?.run;
  const ends = Object.values(resources).flatMap(({ last_run: last, open_problems }) => {
    const isExplained = open_problems.some(({ problem }) => problem !== null);
    return last === null || last.status === 'complete' ? [] : [{ ...last, isExplained }];
  });
  return Array.from(new Map(ends.map((each) => [each.run, each])).values(), (last): Problem[] => {
    const { run, started_at, status } = last;
    const left = ends
      .filter((each) => each.run === run && !each.isExplained && status !== 'interrupted')
      .flatMap(({ problem }) => problem ?? []);
    const isSaid = run !== newest || (status === 'partial' && ends.some(({ isExplained }) => isExplained));
    if (left.length === 0 && isSaid) return [];
    return [{ code: 'last_run', facts: { started_at, status, reasons: [...new Set(left)] }, since: null }];
  }).flat();
}
