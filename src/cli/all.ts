/** `--all`: runs a command for every server of the config file, each in a process of its own, several at once. */
import type { Command } from 'commander';
import pLimit from 'p-limit';
import { counted, onOneLine } from '../model/text.ts';
import { messageOf, OperatorError, worstOf } from '../model/errors.ts';
import { passedToChild, withoutSecrets } from '../settings/passed.ts';
import type { ServerReading, SettingsReading } from '../settings/settings.ts';
import type { CommandCall } from '../model/job.ts';
import type { Log } from '../model/log.ts';
import { type JobEnd, jobRunner, outcomeOf } from '../worker/run-job.ts';
import { type CliContext, interruptionOf } from './context.ts';
import { logOfChildren, openLog } from './logger.ts';
import { paint, printJson, printLine, serverLabel } from './output.ts';

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

/**
 * Runs this command for every server of the config file, and prints a line for each when it ends. The exit code is the worst one.
 * @param words summarises the report of one server
 */
export async function runForAll(
  context: CliContext,
  command: Command,
  words: (report: unknown) => string,
): Promise<void> {
  const all = context.allSettings();
  const call = callOf(command);
  const { folder, environment, signal } = context;
  const log = logOfAll(context);
  const run = jobRunner({ folder, environment: withoutSecrets(environment), log });
  const inTurn = pLimit(atOnce);
  const actor = context.actor();
  const width = Math.max(...all.map(({ profile }) => serverLabel(profile).length));

  async function runWith(reading: SettingsReading, fields: Readonly<Record<string, string>>): Promise<JobEnd> {
    return run(call, { given: passedToChild({ reading, servers: all }), actor, fields }, signal);
  }

  async function runOne({ profile, reading }: ServerReading): Promise<ServerEnd> {
    const fields = profile === null ? {} : { profile };
    const end = signal.aborted ? ended(null, 'not started') : await runWith(reading, fields).catch(notRun);
    if (!context.json()) printLine(context, lineOf(context, { profile, ...end }, width, words));
    return { profile, ...end };
  }

  const ends = await Promise.all(all.map((each) => inTurn(() => runOne(each))));
  const codes = ends.map(({ exitCode }) => exitCode);
  const status = statusOf(codes, signal.aborted);
  if (context.json()) printJson(context, { status, profiles: ends.map(documentOf) });
  else printLine(context, `${counted(ends.length, 'server')}: ${sumOf(ends, signal.aborted)}`);
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

function wordOf({ exitCode }: JobEnd, isStopped: boolean): string {
  return exitCode === 6 ? 'different' : outcomeOf(exitCode, { stopped: isStopped });
}

function lineOf(context: CliContext, end: ServerEnd, width: number, words: (report: unknown) => string): string {
  const word = wordOf(end, context.signal.aborted);
  const shown = paint(context, end.exitCode === 0 ? 'green' : 'red', word.padEnd(11));
  // If it failed, show only why.
  const isReported = end.report !== null && (end.problem === null || word === 'partial');
  const details = [isReported ? words(end.report) : '', end.problem ?? ''].filter((text) => text !== '');
  return `${serverLabel(end.profile).padEnd(width)}  ${shown}  ${onOneLine(details.join('; '))}`.trimEnd();
}

/** `97 complete, 2 partial, 1 failed`. */
function sumOf(ends: readonly JobEnd[], isStopped: boolean): string {
  const byWord = Map.groupBy(ends, (end) => wordOf(end, isStopped));
  return [...byWord].map(([word, found]) => `${found.length} ${word}`).join(', ');
}
