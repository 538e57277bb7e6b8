/**
 * What is wrong right now: a pure function of the jobs' last runs, of what was read of mirror and journal, and of what is
 * known to be wrong already. Its words are ours alone: what a server or a file has said stays in the log, since an alert is
 * sent to others.
 */
import { nextStepOf, outcomeOfExit, steps } from '../next-steps.ts';
import type { JobView } from '../events.ts';
import { durationText, parseInstant, secondMs } from '../../model/time.ts';
import type { Problem, ProblemKind } from '../store/alerts.ts';
import type { JournalHealth, Look, MirrorHealth } from '../store/health.ts';
import type { JobRun } from '../store/store-types.ts';
import { counted } from '../../model/counted.ts';
import type { Freshness } from '../status.ts';

export interface Facts {
  /** undefined where the worker could not look at its file. */
  readonly jobs: readonly JobView[] | undefined;
  readonly mirror: Look<MirrorHealth>;
  readonly journal: Look<JournalHealth>;
  readonly freshness: Freshness;
  /** Why the worker cannot write its file; undefined where it can. */
  readonly trouble: string | undefined;
}

/** The problems there are. What cannot be judged now stays as `known` has it: one cannot be over because nobody could look. */
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

/**
 * A job's problem is over with its next complete run. It may get worse before, partial and then failed, which is another
 * problem; not better: a partial run after a failed one is no news.
 */
function jobProblems({ job: { name }, latest }: JobView, standing: ReadonlyMap<string, Problem>): Problem[] {
  const partial = standing.get(`job_partial:${name}`);
  const failed = standing.get(`job_failed:${name}`);
  const before = [partial, failed].filter((each) => each !== undefined);
  if (latest === undefined) return before;
  const { run, exitCode, outcome } = latest;
  const more = { job: name, run, outcome, exitCode, next: nextStepOf(outcome, exitCode) };
  switch (outcome) {
    case 'complete':
      return [];
    case 'partial':
      if (failed !== undefined) return before;
      return [problem('job_partial', name, `${name} was not complete${partsOf(latest)}`, more)];
    case 'failed':
    case 'locked':
    case 'timed_out':
    case 'interrupted':
    case 'killed':
    case 'missed':
      return [
        ...(partial === undefined ? [] : [partial]),
        problem('job_failed', name, `${name} ${outcomeOfExit(outcome, exitCode)}`, more),
      ];
    case 'stopped':
    case 'skipped':
    case 'overlapped':
    case null:
      // It will be caught up, or what it waited for is a problem of its own.
      return before;
  }
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

/** Rows that may have happened, of a batch that nobody is at. While somebody is, it may come to a response. */
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

/** How late a run began, seconds; null where it was by hand. */
export function latenessOf({ occurrence, startedAt }: JobRun): number | null {
  return occurrence === null ? null : Math.max(0, (parseInstant(startedAt) ?? 0) - occurrence) / secondMs;
}
