/** `status`: shows how fresh the mirror is, what is wrong, the last runs, and the worker with its jobs. */
import type { Command } from 'commander';
import type { CliContext } from './context.ts';
import { notCompleteYet, paint, pasteable, printJson, printLines, serverLabel } from './output.ts';
import { capabilityWords, type MirrorStatus } from '../mirror/open-status.ts';
import { actorText } from '../model/actor.ts';
import { counted, grouped, onOneLine } from '../model/text.ts';
import { FileError, worstOf } from '../model/errors.ts';
import { ageText, clockDifference, parseInstant, systemClock } from '../model/time.ts';
import { type Problem, wordsOf } from '../worker/problem-words.ts';
import { checkCode } from '../worker/problems.ts';
import { type JobStatus, openServerStates, openWholeStatus, type WorkerStatus } from '../worker/open-status.ts';

/** Returns no lines if there is neither a job nor a worker. What is wrong with them comes from src/worker/problem-words.ts. */
function workerLines({ worker, jobs, shared_store: shared }: WorkerStatus): string[] {
  const store = shared === null ? [] : ['', `journal, jobs and alerts are in ${shared.address}`, ...clockLines(shared)];
  if (worker === null && jobs.length === 0) return store;
  const owner =
    worker === null
      ? 'no worker is running; its jobs are'
      : `the worker: process ${worker.pid} on ${worker.host}, since ${worker.acquiredAt}`;
  const width = Math.max(...jobs.map(({ job }) => job.length));
  // The times in a shared store are those of its clock, not of this machine's.
  const ahead = shared?.clock_ahead_ms ?? 0;
  return [...store, '', owner, ...jobs.map((job) => jobLine(job, width, ahead))];
}

function clockLines({ clock_ahead_ms: ahead }: NonNullable<WorkerStatus['shared_store']>): string[] {
  const difference = clockDifference(ahead ?? 0);
  return difference === null ? [] : [`its clock, which jobs and batches use, is ${difference} this machine's`];
}

function jobLine({ job, running_since, last, next_at }: JobStatus, width: number, aheadMs: number): string {
  const end = last?.finished_at ?? null;
  const at = end === null ? '' : ` ${freshText(end, aheadMs)}`;
  const ended = last === null ? 'has not run yet' : `${last.outcome}${at}`;
  const now = running_since === null ? '' : `, runs since ${running_since}`;
  const next = next_at === null ? '' : `, next ${freshText(next_at, aheadMs)}`;
  return `  ${job.padEnd(width)}  ${ended}${now}${next}`;
}

interface Flags {
  readonly check?: true;
  readonly all?: true;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('status')
    .description(
      'Show how fresh the mirror is, what is wrong and what to do about it, and which jobs run next. With --verbose also the ' +
        'windows, what was measured of the server, the last runs and events. Reads files, not the server.',
    )
    .option(
      '--check',
      'print only what is wrong, for monitoring; ends with 0 if nothing is wrong, 5 if the mirror is too old or incomplete, or ' +
        'a run or job failed, 8 if the outcome of a bulk row is not known, 2 if there is no mirror or the journal is lost',
    )
    .option('--all', 'every server of the config file, the worst first; the default if no profile is chosen')
    .action(async (flags: Flags) => {
      if (flags.all || context.reading().isUndecided) return statusOfAll(context, flags);
      const settings = context.settings();
      const { mirror: status, worker, problems } = await openWholeStatus(settings, systemClock);
      if (status instanceof FileError) throw status;
      const { profile } = settings;
      const shown = problems.map((each) => shownProblem(context, each));
      if (flags.check === true) context.exit(checkCode(problems));
      if (context.json())
        return printJson(context, { profile: profile ?? null, problems: shown, ...status, ...worker });
      const wrong = problemLines(context, shown);
      const head = profile === undefined ? [] : [`profile ${profile}`];
      const lines =
        flags.check === true
          ? problems.length === 0
            ? [...head, `nothing is wrong: fresh as of ${freshText(status.fresh_as_of)}`]
            : [...head, ...wrong]
          : [
              ...head,
              ...linesOf(status, wrong),
              ...workerLines(worker),
              ...(context.verbose() ? detailLines(status) : []),
            ];
      printLines(context, lines);
    });
}

/** Prints a line for each server, and below it its worst problem. The exit code is the worst one. */
async function statusOfAll(context: CliContext, flags: Flags): Promise<void> {
  const all = context.allSettings();
  const states = await openServerStates(all, systemClock);
  const readings = new Map(all.map(({ profile, reading }) => [profile, () => reading]));
  const profiles = states.map((state) => {
    const reading = readings.get(state.profile) ?? context.reading;
    return { ...state, problems: state.problems.map((each) => shownProblem({ reading }, each)) };
  });
  if (flags.check) context.exit(worstOf(states.map(({ check }) => check)));
  if (context.json()) return printJson(context, { profiles });
  const wide = Math.max(...profiles.map(({ profile }) => serverLabel(profile).length));
  const shown = flags.check ? profiles.filter(({ problems }) => problems.length > 0) : profiles;
  const lines = shown.flatMap(({ profile, fresh_as_of, problems, is_running }) => {
    const state = problems.length === 0 ? 'good' : counted(problems.length, 'problem');
    const now = is_running ? ', a sync is running' : '';
    const line = `${serverLabel(profile).padEnd(wide)}  ${state.padEnd(11)}  ${freshText(fresh_as_of)}${now}`;
    const rest = problems.length > 1 ? [`  and ${problems.length - 1} more, shown by its own status`] : [];
    return [line, ...problemLines(context, problems.slice(0, 1)).map((each) => `  ${each}`), ...rest];
  });
  const good = states.filter(({ check }) => check === 0).length;
  const counts = [
    [states.length - good, 'with problems'],
    [good, 'good'],
  ].filter(([count]) => count !== 0);
  const sum = counts.map((each) => each.join(' ')).join(', ');
  printLines(context, [`${counted(states.length, 'server')}: ${sum}`, ...lines]);
}

/** With its words, in which the commands can be pasted. */
type ShownProblem = Problem & {
  readonly problem: string;
  readonly effect: string | null;
  readonly next: string | null;
  readonly details: readonly string[];
};

function shownProblem(context: Pick<CliContext, 'reading'>, problem: Problem): ShownProblem {
  const { line, effect, next, details } = wordsOf(problem);
  return { ...problem, problem: line, effect, next: next === null ? null : pasteable(context, next), details };
}

function problemLines(context: CliContext, problems: readonly ShownProblem[]): string[] {
  return problems.flatMap(({ problem, effect, next, details }) => [
    paint(context, 'yellow', problem),
    ...(effect === null ? [] : [`  ${effect}`]),
    ...details.slice(0, context.verbose() ? undefined : 1).map((each) => `  ${onOneLine(each)}`),
    ...(next === null || next === '' ? [] : [`  ${next}`]),
  ]);
}

function linesOf(status: MirrorStatus, wrong: readonly string[]): string[] {
  const lines = [`fresh as of ${freshText(status.fresh_as_of)}`];
  for (const [name, each] of Object.entries(status.resources)) {
    const keptOut = each.kept_out === 0 ? '' : `, ${grouped(each.kept_out)} kept out (forgotten)`;
    const unseen = each.surplus === 0 ? '' : `, the server counts ${grouped(each.surplus)} more that no page shows`;
    const live = grouped(each.live).padStart(12);
    lines.push(`  ${name.padEnd(9)} ${live}  ${freshText(each.fresh_as_of)}${keptOut}${unseen}`);
  }
  if (status.running !== null) {
    lines.push(
      `a sync is running: process ${status.running.pid} on ${status.running.host}, since ${status.running.acquiredAt}`,
    );
  }
  if (wrong.length > 0) lines.push('', 'what is wrong', ...wrong.map((line) => `  ${line}`));
  return lines;
}

/** Returns what --verbose adds: how the mirror is read, and what happened before. */
function detailLines(status: MirrorStatus): string[] {
  const lines = ['', 'windows'];
  for (const [name, each] of Object.entries(status.resources)) {
    const open = each.open_problems.length;
    const all = counted(each.windows, 'window');
    lines.push(`  ${name.padEnd(9)} ${open === 0 ? all : `${open} of ${all} not settled`}`);
  }
  lines.push(...serverLines(status), '', 'last runs');
  if (status.runs.length === 0) lines.push('  none');
  for (const { run, status: end, started_at, requests, actor } of status.runs) {
    const by = actor === null ? '' : `  by ${onOneLine(actorText(actor))}`;
    lines.push(`  ${started_at}  ${end.padEnd(11)} ${counted(requests, 'request')}  ${run}${by}`);
  }
  lines.push(...driftLines(status));
  const others = status.events.filter(
    (event) =>
      !status.drift.some(
        ({ kind, subject, resource }) =>
          kind === event.kind && subject === event.subject && resource === event.resource,
      ),
  );
  if (others.length > 0) lines.push('', 'events, newest first');
  for (const { at, resource, kind, subject, detail } of others) {
    lines.push(
      `  ${at}  ${resource ?? ''} ${kind} ${onOneLine(subject)}${detail === null ? '' : `: ${onOneLine(detail.slice(0, 100))}`}`,
    );
  }
  return lines;
}

function serverLines({ server, resources }: MirrorStatus): string[] {
  const lists = Object.entries(resources).flatMap(([name, { capabilities }]) =>
    capabilities === null
      ? []
      : [`  ${name.padEnd(9)} ${capabilityWords(capabilities)} (measured ${capabilities.measured_at.slice(0, 10)})`],
  );
  if (server === null && lists.length === 0) return [];
  return ['', `the server ${server === null ? '' : `at ${server.address}`}`.trimEnd(), ...lists];
}

const driftWords: Readonly<Record<string, string>> = {
  unknown_field: 'unknown fields, kept in _extra',
  missing_field: 'missing fields, stored as null',
  changed_type: 'values of another type, kept as they are',
  unreadable_text: 'text that is not valid UTF-8, kept as \uFFFD',
  relation_absent: 'missing related records',
};

/** Returns a line for each resource and way in which its records differ from the reference, with the fields. */
function driftLines({ drift }: MirrorStatus): string[] {
  if (drift.length === 0) return [];
  const lines = new Map<string, string[]>();
  for (const { resource, kind, subject, detail } of drift) {
    const line = `  ${(resource ?? '').padEnd(9)} ${driftWords[kind] ?? kind}`;
    const [what = ''] = (detail ?? '').split(';');
    const fields = lines.get(line) ?? [];
    fields.push(kind === 'changed_type' ? `${subject} (${what})` : subject);
    lines.set(line, fields);
  }
  const inOrder = [...lines].sort(([a], [b]) => a.localeCompare(b));
  return [
    '',
    "drift: how records differ from the API's reference",
    ...inOrder.map(([line, fields]) => `${line}: ${onOneLine(fields.sort().join(', '))}`),
  ];
}

/** `2026-11-21T02:15:00.000000Z (3 hours ago)`. @param aheadMs how far the clock of that time is ahead of this machine's */
function freshText(at: string | null, aheadMs = 0): string {
  const instant = parseInstant(at);
  if (at === null || instant === undefined) return notCompleteYet;
  return `${at} (${ageText(systemClock.now() + aheadMs - instant)})`;
}
