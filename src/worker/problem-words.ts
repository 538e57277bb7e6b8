/** What may be wrong, as a code and facts, and the one table of its words: of the command line, the console, alerts and JSON. */
import { exitMeanings } from '../model/errors.ts';
import { counted } from '../model/text.ts';
import { durationText, minuteOf, secondMs, type Timestamp } from '../model/time.ts';
import type { WindowCause } from '../store/mirror-types.ts';
import type { OpenBatch, StoppedBatch } from './store/health.ts';
import type { RunOutcome } from './store/port.ts';

/** In the words of the error that says it. */
interface Told {
  readonly message: string;
  readonly advice: string;
}

/** What a cause keeps from being done. Never empty. */
interface Touched {
  /** Syncs and comparisons that failed. */
  readonly jobs?: readonly string[];
  /** By resource, how many parts of it are not up to date. */
  readonly parts?: Readonly<Record<string, number>>;
  /** Why the first of these parts is not, in its own words. */
  readonly reason?: string | null;
}

interface OtherFacts {
  /** The settings of a server cannot be used. */
  readonly settings: Told;
  readonly no_mirror: Told;
  /** The mirror was read from another address than the settings name. */
  readonly other_server: Told;
  readonly shared_store: Told;
  readonly journal: Pick<Told, 'message'>;
  /** Rows whose outcome is open, of a batch that no process works on. */
  readonly batch_unknown: Pick<OpenBatch, 'batch' | 'rows'>;
  readonly batch_stopped: StoppedBatch;
  /** The worker cannot write its own file. */
  readonly worker_file: { readonly message: string };
  /** The last sync, with the reasons that no part of a list has. */
  readonly last_run: {
    readonly started_at: Timestamp;
    readonly status: string;
    readonly reasons: readonly string[];
  };
  readonly never_read: { readonly resources: readonly string[]; readonly is_running: boolean };
  readonly stale: { readonly resources: readonly string[]; readonly max_staleness_seconds: number };
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

type FactsOf = OtherFacts & Readonly<Record<WindowCause, Touched>>;
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

const doctor = 'Next: `admin-mirror doctor` shows what is wrong and where to correct it';
const sync = 'Next: `admin-mirror sync` reads the open parts again; if the problem stays, run `admin-mirror doctor`';
const goOn = 'Next: `admin-mirror sync` goes on from there';
const worker = 'Next: check that the worker runs (`admin-mirror status`); the next run does what is left';

const own = ({ message, advice }: Told): Words => ({ what: message, next: advice });

const cause =
  (what: string, next = sync) =>
  ({ jobs = [], parts = {}, reason = null }: Touched): Words => {
    const count = Object.values(parts).reduce((sum, each) => sum + each, 0);
    const open = `${counted(count, 'part')} of ${Object.keys(parts).join(', ')} ${count === 1 ? 'is' : 'are'} not up to date`;
    const touched = [...(jobs.length === 0 ? [] : [`${jobs.join(', ')} failed`]), ...(count === 0 ? [] : [open])];
    return { what: `${what}: ${touched.join('; ')}`, next, detail: reason };
  };

/** Why something is not up to date. */
const causes: { readonly [Cause in WindowCause]: (facts: Touched) => Words } = {
  key_refused: cause(exitMeanings[3], doctor),
  server_unreachable: cause(exitMeanings[4], doctor),
  server_failed: cause('the server failed'),
  deletions_refused: cause(
    'many records disappeared from the server at once, and were kept here',
    'Next: look at the server; if they were deleted on purpose, `admin-mirror sync --allow-deletions` removes them here',
  ),
  list_contradicts_itself: cause('the server contradicts itself'),
  list_changed: cause('records came and went while a list was read'),
  records_unreadable: cause(
    'some records cannot be read',
    'Next: report them to whoever runs the server; `admin-mirror status --verbose` names them',
  ),
  deletions_unproven: cause('records disappeared, and nothing proves that they are gone'),
  requests_spent: cause('the last sync had used its requests'),
  rows_altered: cause('another program has changed rows'),
  rows_differ: cause('a comparison has found rows that differ'),
  not_read: cause('a sync ended before it had read everything'),
};

/** The worst first. */
const words: { readonly [Code in ProblemCode]: (facts: FactsOf[Code]) => Words } = {
  settings: own,
  no_mirror: own,
  other_server: own,
  shared_store: own,
  journal: ({ message }) => ({ what: message, next: doctor }),
  batch_unknown: ({ batch, rows }) => {
    const counts = Object.entries(rows).filter(([, count]) => count > 0);
    const states = counts.map(
      ([state, count]) => `${count} ${state === 'needs_human' ? 'in need of a person' : state}`,
    );
    const next = `Next: \`admin-mirror bulk resume ${batch}\` looks for them again; do not send those rows in any other way`;
    return { what: `batch ${batch} has rows whose outcome is not known: ${states.join(', ')}`, next };
  },
  batch_stopped: ({ batch, sent, left }) => {
    const were = (count: number) => (count === 1 ? 'was' : 'were');
    const what = `batch ${batch} was stopped: ${counted(sent, 'row')} ${were(sent)} sent, and ${left} ${were(left)} not`;
    return {
      what,
      next: `Next: \`admin-mirror bulk resume ${batch}\` sends the rest, and \`admin-mirror bulk discard ${batch}\` ends it`,
    };
  },
  worker_file: ({ message }) => ({
    what: `the worker cannot write its own file: ${message}`,
    next: 'Next: free some space in the folder of the mirror, or correct its permissions',
  }),
  ...causes,
  last_run: ({ started_at, status, reasons }) => {
    // A run whose disk was full looks like one that was killed.
    const ended =
      status === 'failed' ? status : status === 'killed' ? 'was killed or could not write its end' : `was ${status}`;
    const next = status === 'failed' ? doctor : status === 'interrupted' ? goOn : sync;
    return { what: `the last sync, of ${minuteOf(started_at)}, ${ended}`, next, detail: reasons.join('; ') };
  },
  never_read: ({ resources, is_running }) => ({
    what: `never read whole: ${resources.join(', ')}`,
    next: is_running ? 'Next: wait for the sync that is running' : sync,
  }),
  stale: ({ resources, max_staleness_seconds }) => {
    const names = resources.length === 0 ? 'there is no mirror' : resources.join(', ');
    const limit = durationText(max_staleness_seconds * secondMs);
    return { what: `the mirror is older than the ${limit} of worker.max_staleness: ${names}`, next: sync };
  },
  job_failed: ({ job, outcome, exit_code, parts }) => {
    if (outcome === 'killed') return { what: `${job} ended because the worker died`, next: worker };
    const log = 'Next: read the log of that run; `admin-mirror schedule --once NAME` runs a job now';
    if (exit_code === null) return { what: `${job} was ended by a signal, or could not be run`, next: log };
    const meaning = (exitMeanings as Readonly<Record<number, string>>)[exit_code] ?? 'failed';
    const what = `${job} ended with exit code ${exit_code}: ${meaning}`;
    return { what: `${what}${parts.length === 0 ? '' : ` (${parts.join(', ')})`}`, next: exitSteps[exit_code] ?? log };
  },
  test: () => ({ what: 'this is a test, nothing is wrong', next: null }),
};

/** What to do about a job that ended so, if it is not to read its log. */
const exitSteps: Readonly<Record<number, string>> = {
  2: doctor,
  3: doctor,
  4: doctor,
  5: 'Next: `admin-mirror status` shows which part and why; then run `admin-mirror sync`',
  6: 'Next: `admin-mirror sync`, then `admin-mirror verify`; please report a difference that stays',
  7: 'Next: wait for the other run; `admin-mirror status` shows which one it is',
  8: 'Next: `admin-mirror bulk status` names the batch; then run `admin-mirror bulk resume`',
  130: worker,
  143: worker,
};

export function isCause(problem: Problem): problem is Problem<WindowCause> {
  return problem.code in causes;
}

function tableWords<C extends ProblemCode>({ code, facts }: Problem<C>): Words {
  return (words[code] as (facts: FactsOf[C]) => Words)(facts);
}

/** Words the problem, as every face of the program shows it. */
export function wordsOf(problem: Problem) {
  const { what, next } = tableWords(problem);
  const { since, effects = [] } = problem;
  return {
    what,
    /** What is wrong, in one line, and since when. */
    line: since === null ? what : `${what}, since ${since}`,
    /** What is wrong because of it, in one line; null if nothing is. */
    effect: effects.length === 0 ? null : `so ${effects.map((each) => tableWords(each).what).join('; ')}`,
    next,
    /** The reasons in their own words. */
    details: [problem, ...effects].map((each) => tableWords(each).detail ?? '').filter((detail) => detail !== ''),
  };
}

const order = Object.keys(words);

/** The lower, the worse. */
export const rankOf = ({ code }: Problem): number => order.indexOf(code);
