/** Commands of this program as child processes: the jobs of the worker, and the runs that people start in the console. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { messageOf, OperatorError } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import { secondMs } from '../model/time.ts';
import { commandFile } from '../model/program.ts';
import type { RunOutcome } from './store/port.ts';

/** Less than the ten seconds in which the worker itself must end. */
const defaultGraceMs = 9 * secondMs;

interface ChildOptions {
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** `pipe`: the caller reads the output; `inherit`: it goes where the output of this process goes. */
  readonly output: 'pipe' | 'inherit';
  readonly signal: AbortSignal;
  /** How long the child may take to stop after its signal, before it is killed. */
  readonly graceMs?: number;
}

/**
 * Starts a command. When the signal is aborted, the child gets SIGTERM (SIGINT for an interrupt) and is killed after the grace
 * period. If this process dies, the child stops by itself.
 */
export function startChild(
  argv: readonly string[],
  { folder, environment, output, signal, graceMs = defaultGraceMs }: ChildOptions,
): ChildProcess {
  const child = spawn(process.execPath, [commandFile, ...argv], {
    cwd: folder,
    env: environment,
    // Nothing is sent over the channel. It breaks when this process is killed, and then the child stops.
    stdio: ['ignore', output, output, 'ipc'],
    // With its own process group, the child gets Ctrl+C once, through us. A second signal would kill it.
    detached: true,
  });
  let killTimer: NodeJS.Timeout | undefined;
  const stop = (): void => {
    const { reason } = signal as { readonly reason: unknown };
    child.kill(reason instanceof OperatorError && reason.exitCode === 130 ? 'SIGINT' : 'SIGTERM');
    killTimer = setTimeout(killGroup, graceMs, child);
  };
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop, { once: true });
  // A second signal ends this process at once: its children must not outlive it.
  if (children.size === 0) process.on('exit', killAll);
  children.add(child);
  const settle = (): void => {
    clearTimeout(killTimer);
    signal.removeEventListener('abort', stop);
    children.delete(child);
    if (children.size === 0) process.off('exit', killAll);
  };
  child.once('close', settle).once('error', settle);
  return child;
}

const children = new Set<ChildProcess>();

function killAll(): void {
  for (const child of children) killGroup(child);
}

/** Kills the child, which must have its own process group, with everything that it has started. */
export function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has already ended.
  }
}

export interface CommandEnd {
  /** null if a signal ended it. */
  readonly exitCode: number | null;
  /** What it printed with --json; null if that was not JSON. */
  readonly report: unknown;
  readonly problem: string | null;
}

const outcomes: Readonly<Record<number, RunOutcome>> = {
  5: 'partial',
  7: 'locked',
  130: 'interrupted',
  143: 'interrupted',
};

/** Returns what an exit code (docs/commands.md, "Exit codes") means for the job. */
export function outcomeOf(
  exitCode: number | null,
  { timedOut = false, stopped = false }: { readonly timedOut?: boolean; readonly stopped?: boolean } = {},
): RunOutcome {
  if (exitCode === 0) return 'complete';
  if (timedOut) return 'timed_out';
  if (stopped) return 'stopped';
  return outcomes[exitCode ?? 1] ?? 'failed';
}

/** The end of a run whose command could not be started. */
export function couldNotRun(error: unknown) {
  const problem = `the command could not be run: ${messageOf(error)}`;
  return { outcome: 'failed', exitCode: null, problem, report: null } as const;
}

/** A report has a few KiB. Longer output is not a report. */
const maxReportLength = 1 << 20;

interface CommandPorts extends Pick<ChildOptions, 'folder' | 'environment'> {
  /** Given to every command before its own arguments. */
  readonly globalFlags: () => readonly string[];
  readonly log: Log;
}

interface CommandUse {
  /** Added to the environment. */
  readonly variables: Readonly<Record<string, string>>;
  /** Added to each line that it writes to the log. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Called with each line of its log, which also goes into ours. */
  readonly onLine?: (line: LogLine) => void;
}

export interface LogLine {
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Returns a function that runs a command as a child process with --json. Once the signal is aborted, it ends within ten seconds. */
export function commandRunner({ folder, environment, globalFlags, log }: CommandPorts) {
  return async (
    commandLine: readonly string[],
    { variables, fields, onLine }: CommandUse,
    signal: AbortSignal,
  ): Promise<CommandEnd> => {
    const argv = [...globalFlags(), ...commandLine, '--json'];
    const child = startChild(argv, { folder, environment: { ...environment, ...variables }, output: 'pipe', signal });
    const messages: string[] = [];
    let output = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      if (output.length <= maxReportLength) output += text;
    });
    const lines = child.stderr === null ? undefined : createInterface({ input: child.stderr });
    lines?.on('line', (line) => {
      if (line.trim() === '') return;
      const logged = logLineOf(line);
      if (logged === undefined) messages.push(line);
      else onLine?.(logged);
      log[logged?.level ?? 'warn']({ ...fields, ...logged?.fields }, logged?.message ?? line);
    });
    const [code, endedBy] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    return { exitCode: code, report: parsed(output) ?? null, problem: problemOf(messages, code, endedBy) };
  };
}

export type CommandRunner = ReturnType<typeof commandRunner>;

const levels: readonly string[] = ['debug', 'info', 'warn', 'error'] satisfies (keyof Log)[];

/** Parses a line of the command's log; returns undefined for a message to people. */
function logLineOf(line: string) {
  const entry = parsed(line);
  if (typeof entry !== 'object' || entry === null) return undefined;
  const { level, msg, time: _time, ...fields } = entry as Readonly<Record<string, unknown>>;
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

/** Returns the error that the command printed, without its advice. */
function problemOf(messages: readonly string[], code: number | null, endedBy: NodeJS.Signals | null): string | null {
  if (code === 0) return null;
  const error = messages.findLast((line) => line.startsWith('error: '));
  if (error !== undefined) return error.slice('error: '.length);
  return endedBy === null ? (messages.at(-1) ?? null) : `it was ended by ${endedBy}`;
}
