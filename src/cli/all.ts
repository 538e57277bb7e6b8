/** `--all`: runs a command for every server of the config file, each in a process of its own, several at once. */
import type { Command } from 'commander';
import pLimit from 'p-limit';
import { counted, onOneLine } from '../model/text.ts';
import { messageOf, OperatorError, rankOf, worstOf } from '../model/errors.ts';
import { passedToChild, withoutSecrets } from '../settings/passed.ts';
import type { ServerReading } from '../settings/settings.ts';
import type { CommandCall } from '../model/job.ts';
import type { Log } from '../model/log.ts';
import { type JobEnd, jobRunner, outcomeOf } from '../worker/run-job.ts';
import { type CliContext, interruptionOf } from './context.ts';
import { logOfChildren, openLog } from './logger.ts';
import { alignedLines, paint, printResult, serverLabel } from './output.ts';
import { openShareWatch } from './progress.ts';

export interface AllFlags {
  readonly all?: true;
}

/** How many servers at the same time: each takes a process. */
export const atOnce = 4;

export function addAllFlags(command: Command): Command {
  return command.option('--all', 'run it for every server of the config file');
}

interface ServerEnd extends JobEnd {
  /** null for the server outside of the profiles. */
  readonly profile: string | null;
}

/** How `--all` speaks about the servers. */
interface AllWords {
  /** Summarises the report of one server. */
  readonly one: (report: unknown) => string;
  /** What the end of a server is called, by exit code, if it is more than how a job ends. */
  readonly ends?: Readonly<Partial<Record<number, string>>>;
}

/**
 * Runs this command for every server of the config file, and prints first how they ended, then a line for each, the worst first. The
 * exit code is the worst one.
 */
export async function runForAll(
  context: CliContext,
  command: Command,
  { one, ends: named = {} }: AllWords,
): Promise<void> {
  const all = context.allSettings();
  const call = callOf(command);
  const { folder, environment, signal } = context;
  const log = logOfAll(context);
  const run = jobRunner({ folder, environment: withoutSecrets(environment), log });
  const inTurn = pLimit(atOnce);
  const actor = context.actor();
  const watch = openShareWatch(context, counted(all.length, 'server'));
  let done = 0;

  async function runOne({ profile, reading }: ServerReading): Promise<ServerEnd> {
    const fields = profile === null ? {} : { profile };
    const given = () => passedToChild({ reading, servers: all });
    const running = async () => run(call, { given: given(), actor, fields }, signal);
    const end = signal.aborted ? ended(null, 'not started') : await running().catch(notRun);
    done += 1;
    watch.progress(done / all.length);
    return { profile, ...end };
  }

  const ends = await Promise.all(all.map((each) => inTurn(() => runOne(each)))).finally(watch.close);
  const codes = ends.map(({ exitCode }) => exitCode);
  const word = ({ exitCode }: JobEnd) =>
    (exitCode === null ? undefined : named[exitCode]) ?? outcomeOf(exitCode, { stopped: signal.aborted });
  printResult(context, { status: statusOf(codes, signal.aborted), profiles: ends.map(documentOf) }, [
    ...linesOf(
      context,
      ends.toSorted((a, b) => rankOf(a.exitCode) - rankOf(b.exitCode)),
      word,
      one,
    ),
  ]);
  const interruption = interruptionOf(signal);
  if (interruption !== undefined) throw interruption;
  context.exit(worstOf(codes));
}

function ended(exitCode: number | null, problem: string): JobEnd {
  return { exitCode, problem, report: null };
}

/** The end of a server whose command could not run: its settings may have a problem. */
function notRun(error: unknown): JobEnd {
  return ended(error instanceof OperatorError ? error.exitCode : 1, messageOf(error));
}

/** Returns the command as it was given, with its own flags alone. Their values must be texts, numbers or durations. */
export function callOf(command: Command): CommandCall {
  const options: Record<string, true | string> = {};
  for (const option of command.options) {
    const name = option.attributeName();
    const isOwn = !option.hidden && option.long !== '--all' && command.getOptionValueSource(name) === 'cli';
    const value: unknown = command.getOptionValue(name);
    const unit = option.flags.endsWith('<duration>') ? 'ms' : '';
    if (isOwn) options[(option.long ?? '').slice('--'.length)] = value === true ? true : `${String(value)}${unit}`;
  }
  const path = [command.name()];
  for (let { parent } = command; parent?.parent; { parent } = parent) path.unshift(parent.name());
  return { path, operands: command.args, options };
}

/** Opens the log of this process, to which the processes of the servers write. */
function logOfAll(context: CliContext): Log {
  const settings = { ...context.reading().rest, profile: undefined };
  return logOfChildren(context, openLog({ ...context, settings: () => settings }));
}

function documentOf({ profile, exitCode, problem, report }: ServerEnd) {
  return { profile, exit_code: exitCode, problem, report };
}

function statusOf(codes: readonly (number | null)[], isStopped: boolean): string {
  if (isStopped) return 'interrupted';
  if (codes.every((code) => code === 0)) return 'complete';
  return codes.some((code) => code === 0 || code === 5 || code === 6) ? 'partial' : 'failed';
}

/** `3 servers: 1 partial, 2 complete`, and a line for each. */
function linesOf(
  context: CliContext,
  ends: readonly ServerEnd[],
  wordOf: (end: JobEnd) => string,
  one: (report: unknown) => string,
): string[] {
  const sum = [...Map.groupBy(ends, wordOf)].map(([word, found]) => `${found.length} ${word}`).join(', ');
  const rows = ends.map((end) => {
    // If it failed, show only why.
    const isReported = end.report !== null && (end.problem === null || end.exitCode === 5);
    const details = [isReported ? one(end.report) : '', end.problem ?? ''].filter((text) => text !== '');
    const word = paint(context, end.exitCode === 0 ? 'green' : 'red', wordOf(end));
    return [serverLabel(end.profile), word, onOneLine(details.join('; '))];
  });
  return [`${counted(ends.length, 'server')}: ${sum}`, ...alignedLines(rows)];
}
