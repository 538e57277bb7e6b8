/** What is wrong with a mirror and its worker, each with its reason and the next step: for `status`, `--check` and `--json`. */
import type { MirrorStatus } from '../mirror/status.ts';
import type { ExitCode } from '../model/errors.ts';
import { counted } from '../model/text.ts';
import { durationText, secondMs } from '../model/time.ts';
import { steps } from './problems.ts';
import type { WorkerStatus } from './open-status.ts';

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
    ...staleness(worker),
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
      const words = counts.map(([state, count]) => `${count} ${state.replace('_', ' ')}`).join(', ');
      const problem = `batch ${batch} has rows whose outcome is not known: ${words}`;
      return { kind: 'batch_unknown', problem, next: steps.batch(batch) };
    });
}

function staleness({ freshness }: WorkerStatus): StatusProblem[] {
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
  return [{ kind: 'last_run', problem: `the last run, of ${last.started_at}, was ${last.status}${why}`, next }];
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
