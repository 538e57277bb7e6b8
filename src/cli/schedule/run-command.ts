/** The worker's way to run a command: what it prints goes to the log, its answer and its complaint to the worker. */
import type { Readable } from 'node:stream';
import type { Log } from '../../model/log.ts';
import type { CommandEnd, RunCommand } from '../../worker/run-job.ts';
import { type ChildOptions, startChild } from './child.ts';

/** A report is a few KiB; what is longer is none. */
const longestAnswer = 1 << 20;
const longestLine = 1 << 16;

export interface CommandPorts extends Pick<ChildOptions, 'folder' | 'environment'> {
  /** Given to every command before its own arguments. */
  readonly globalFlags: () => readonly string[];
  readonly log: Log;
}

/** Runs each command as a child process, with --json. */
export function commandRunner({ folder, environment, globalFlags, log }: CommandPorts): RunCommand {
  return async (commandLine, { job, run }, signal): Promise<CommandEnd> => {
    const argv = [...globalFlags(), ...commandLine, '--json'];
    const child = startChild(argv, { folder, environment, output: 'pipe', signal });
    const complaints: string[] = [];
    let answer = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      if (answer.length <= longestAnswer) answer += text;
    });
    eachLine(child.stderr, (line) => {
      const told = toldIn(line);
      if (told === undefined) complaints.push(line);
      log[told?.level ?? 'warn']({ job, job_run: run, ...told?.fields }, told?.message ?? line);
    });
    const { code, signal: endedBy } = await ended(child);
    const report = parsed(answer);
    return { exitCode: code, report: report ?? null, problem: problemOf(complaints, code, endedBy) };
  };
}

function ended(child: ReturnType<typeof startChild>) {
  return new Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal }));
  });
}

function eachLine(stream: Readable | null, tell: (line: string) => void): void {
  let rest = '';
  stream?.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = (lines.pop() ?? '').slice(0, longestLine);
    for (const line of lines) if (line.trim() !== '') tell(line);
  });
  stream?.once('end', () => {
    if (rest.trim() !== '') tell(rest);
  });
}

const levels: readonly string[] = ['debug', 'info', 'warn', 'error'] satisfies (keyof Log)[];

/** A line of the command's own log; undefined where it is one for people. */
function toldIn(line: string) {
  const told = parsed(line);
  if (typeof told !== 'object' || told === null) return undefined;
  const { level, msg, time: _time, ...fields } = told as Readonly<Record<string, unknown>>;
  if (typeof level !== 'string' || typeof msg !== 'string') return undefined;
  return { level: (levels.includes(level) ? level : 'error') as keyof Log, message: msg, fields };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What the command called an error, without the advice for whoever sits before it. */
function problemOf(complaints: readonly string[], code: number | null, endedBy: NodeJS.Signals | null): string | null {
  if (code === 0) return null;
  const error = complaints.findLast((line) => line.startsWith('error: '));
  if (error !== undefined) return error.slice('error: '.length);
  return endedBy === null ? (complaints.at(-1) ?? null) : `it was ended by ${endedBy}`;
}
