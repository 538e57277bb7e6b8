/** A command of this program as a child process: how the worker runs its jobs, and the console what people start. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { messageOf, OperatorError } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import { secondMs } from '../model/time.ts';
import { commandFile } from '../model/program.ts';
import type { RunOutcome } from './store/port.ts';

/** The worker itself ends within ten seconds. */
const usualPatienceMs = 9 * secondMs;

interface ChildOptions {
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** `pipe`: the caller reads what it prints; `inherit`: it prints where this process does. */
  readonly output: 'pipe' | 'inherit';
  readonly signal: AbortSignal;
  /** How long it may take to stop in order, ms. */
  readonly patienceMs?: number;
}

/** Once the signal is aborted it gets a signal, and is ended in time; where this process is killed, it stops. */
export function startChild(
  argv: readonly string[],
  { folder, environment, output, signal, patienceMs = usualPatienceMs }: ChildOptions,
): ChildProcess {
  const child = spawn(process.execPath, [commandFile, ...argv], {
    cwd: folder,
    env: environment,
    // The channel says nothing. It breaks when this process is killed, and the child stops by itself.
    stdio: ['ignore', output, output, 'ipc'],
    // In a process group of its own: Ctrl+C reaches it once, through us. A second signal would end it at once.
    detached: true,
  });
  let impatient: NodeJS.Timeout | undefined;
  const stop = (): void => {
    const { reason } = signal as { readonly reason: unknown };
    child.kill(reason instanceof OperatorError && reason.exitCode === 130 ? 'SIGINT' : 'SIGTERM');
    impatient = setTimeout(endGroup, patienceMs, child);
  };
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop, { once: true });
  // A second signal ends this process at once, and them.
  if (children.size === 0) process.on('exit', endAll);
  children.add(child);
  const settle = (): void => {
    clearTimeout(impatient);
    signal.removeEventListener('abort', stop);
    children.delete(child);
    if (children.size === 0) process.off('exit', endAll);
  };
  child.once('close', settle).once('error', settle);
  return child;
}

const children = new Set<ChildProcess>();

function endAll(): void {
  for (const child of children) endGroup(child);
}

/** Ends the process, which has a group of its own, with all that it has started. */
export function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

export interface CommandEnd {
  /** null where a signal ended it. */
  readonly exitCode: number | null;
  /** What it printed under --json; null where that was no JSON. */
  readonly report: unknown;
  readonly problem: string | null;
}

const outcomes: Readonly<Record<number, RunOutcome>> = {
  5: 'partial',
  7: 'locked',
  130: 'interrupted',
  143: 'interrupted',
};

/** What an exit code means for the job; docs/commands.md, "Exit codes", has them. */
export function outcomeOf(
  exitCode: number | null,
  { timedOut = false, stopped = false }: { readonly timedOut?: boolean; readonly stopped?: boolean } = {},
): RunOutcome {
  if (exitCode === 0) return 'complete';
  if (timedOut) return 'timed_out';
  if (stopped) return 'stopped';
  return outcomes[exitCode ?? 1] ?? 'failed';
}

/** The end of one that could not be run. */
export function notRun(error: unknown) {
  const problem = `the command could not be run: ${messageOf(error)}`;
  return { outcome: 'failed', exitCode: null, problem, report: null } as const;
}

/** A report is a few KiB; what is longer is none. */
const longestResponse = 1 << 20;

interface CommandPorts extends Pick<ChildOptions, 'folder' | 'environment'> {
  /** Given to every command before its own arguments. */
  readonly globalFlags: () => readonly string[];
  readonly log: Log;
}

interface CommandUse {
  /** Of the environment, besides what this process has. */
  readonly variables: Readonly<Record<string, string>>;
  /** Stand in each line of the log that it writes. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Called with each line of its log, beside its going into ours. */
  readonly onLine?: (line: LogLine) => void;
}

export interface LogLine {
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Runs each command as a child process, with --json. Once the signal is aborted, it ends in order within ten seconds. */
export function commandRunner({ folder, environment, globalFlags, log }: CommandPorts) {
  return async (
    commandLine: readonly string[],
    { variables, fields, onLine }: CommandUse,
    signal: AbortSignal,
  ): Promise<CommandEnd> => {
    const argv = [...globalFlags(), ...commandLine, '--json'];
    const child = startChild(argv, { folder, environment: { ...environment, ...variables }, output: 'pipe', signal });
    const complaints: string[] = [];
    let response = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      if (response.length <= longestResponse) response += text;
    });
    const lines = child.stderr === null ? undefined : createInterface({ input: child.stderr });
    lines?.on('line', (line) => {
      if (line.trim() === '') return;
      const reported = reportedIn(line);
      if (reported === undefined) complaints.push(line);
      else onLine?.(reported);
      log[reported?.level ?? 'warn']({ ...fields, ...reported?.fields }, reported?.message ?? line);
    });
    const [code, endedBy] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    const report = parsed(response);
    return { exitCode: code, report: report ?? null, problem: problemOf(complaints, code, endedBy) };
  };
}

export type CommandRunner = ReturnType<typeof commandRunner>;

const levels: readonly string[] = ['debug', 'info', 'warn', 'error'] satisfies (keyof Log)[];

/** A line of the command's own log; undefined where it is one for people. */
function reportedIn(line: string) {
  const reported = parsed(line);
  if (typeof reported !== 'object' || reported === null) return undefined;
  const { level, msg, time: _time, ...fields } = reported as Readonly<Record<string, unknown>>;
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

/** What the command called an error, without the advice for a person. */
function problemOf(complaints: readonly string[], code: number | null, endedBy: NodeJS.Signals | null): string | null {
  if (code === 0) return null;
  const error = complaints.findLast((line) => line.startsWith('error: '));
  if (error !== undefined) return error.slice('error: '.length);
  return endedBy === null ? (complaints.at(-1) ?? null) : `it was ended by ${endedBy}`;
}
