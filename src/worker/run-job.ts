/**
 * Runs commands of this program as child processes: the jobs of the worker, the runs that people start in the console, and a
 * command for each server. A child gets one message with its job as data, and sends its log, its report and its end as data.
 * Section "The worker" of docs/architecture.md; src/cli/job-child.ts is the child's side.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Actor } from '../model/actor.ts';
import { type Failure, messageOf, OperatorError } from '../model/errors.ts';
import type { CommandCall } from '../model/job.ts';
import type { Log } from '../model/log.ts';
import { childWord, commandFile } from '../model/program.ts';
import { secondMs } from '../model/time.ts';
import type { RunOutcome } from './store/port.ts';

/** Settings for a child, as src/settings/passed.ts makes them: nothing here reads them. */
export interface GivenData {
  readonly plain: unknown;
}

/** What a child does, for whom, and with which settings. It reads none itself. */
export interface ChildJob {
  readonly call: CommandCall;
  readonly actor: Actor;
  /** The name of its run; null for one of its own. */
  readonly run: string | null;
  readonly given: GivenData;
  /** `report`: prints nothing and sends its report. `terminal`: prints what the command would print. */
  readonly output: ChildOutput;
}

export type ChildOutput =
  | { readonly kind: 'report' }
  | { readonly kind: 'terminal'; readonly json: boolean; readonly quiet: boolean; readonly color: boolean };

/** What a child sends. */
export type ChildNews =
  | ({ readonly kind: 'log' } & LogLine)
  | { readonly kind: 'report'; readonly report: unknown }
  /** Why it failed: the text without advice, which is in its log, and the error itself. */
  | { readonly kind: 'problem'; readonly problem: string; readonly failure: Failure };

export interface LogLine {
  readonly level: keyof Log;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface JobEnd {
  /** null if a signal ended it. */
  readonly exitCode: number | null;
  /** What the command prints with --json; null if it came to none. */
  readonly report: unknown;
  readonly problem: string | null;
}

/** Less than the ten seconds in which the worker itself must end. */
const defaultGraceMs = 9 * secondMs;

interface ChildOptions {
  readonly folder: string;
  /** Without secrets: those of the settings come as data. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Its standard input, output and error. */
  readonly streams: readonly ['ignore' | 'inherit', 'ignore' | 'inherit' | 'pipe', 'inherit' | 'pipe'];
  readonly signal: AbortSignal;
  /** How long the child may take to stop after its signal, before it is killed. */
  readonly graceMs?: number;
}

/**
 * Starts a child. When the signal is aborted, it gets SIGTERM (SIGINT for an interrupt) and is killed after the grace period. If
 * this process dies, it stops by itself.
 */
export function startChild({
  folder,
  environment,
  streams,
  signal,
  graceMs = defaultGraceMs,
}: ChildOptions): ChildProcess {
  const child = spawn(process.execPath, [commandFile, childWord], {
    cwd: folder,
    env: environment,
    // The channel breaks when this process is killed, and then the child stops.
    stdio: [...streams, 'ipc'],
    serialization: 'advanced',
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
  const settle = (): void => {
    clearTimeout(killTimer);
    signal.removeEventListener('abort', stop);
  };
  child.once('close', settle).once('error', settle);
  return child;
}

/** Kills the child, which must have its own process group, with everything that it has started. */
function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has already ended.
  }
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
  { stopped = false }: { readonly stopped?: boolean } = {},
): RunOutcome {
  if (exitCode === 0) return 'complete';
  if (stopped) return 'stopped';
  return outcomes[exitCode ?? 1] ?? 'failed';
}

/** The end of a run whose command could not be started. */
export function couldNotRun(error: unknown) {
  const problem = `the command could not be run: ${messageOf(error)}`;
  return { outcome: 'failed', exitCode: null, problem, report: null } as const;
}

const reporting = ['ignore', 'ignore', 'pipe'] as const;
/** It may ask a question there. */
const onTerminal = ['inherit', 'inherit', 'inherit'] as const;
const printing = ['ignore', 'pipe', 'pipe'] as const;

interface JobPorts extends Pick<ChildOptions, 'folder' | 'environment'> {
  readonly log: Log;
}

interface JobUse extends Partial<Pick<ChildOptions, 'folder' | 'graceMs'>> {
  readonly given: GivenData;
  readonly actor: Actor;
  readonly run?: string;
  /** `report` if it is left out. */
  readonly output?: ChildOutput;
  /** Takes what it prints, if that is not for this process's own terminal. */
  readonly print?: { readonly stdout: NodeJS.WritableStream; readonly stderr: NodeJS.WritableStream };
  /** Added to each line that it writes to the log. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Called with each line of its log, which also goes into ours. */
  readonly onLine?: (line: LogLine) => void;
}

/** Runs a command in a child. Once the signal is aborted, it ends within ten seconds. `failure` is the error that it ended with. */
export type RunJob = (
  call: CommandCall,
  use: JobUse,
  signal: AbortSignal,
) => Promise<JobEnd & { readonly failure: Failure | null }>;

export function jobRunner({ folder, environment, log }: JobPorts): RunJob {
  return async (call, use, signal) => {
    const { given, actor, run = null, output = { kind: 'report' }, print, fields, onLine, ...child } = use;
    const isReport = output.kind === 'report';
    const streams = isReport ? reporting : print === undefined ? onTerminal : printing;
    const started = startChild({ folder, environment, streams, signal, ...child });
    started.stdout?.on('data', (bytes: Buffer) => print?.stdout.write(bytes));
    if (!isReport) started.stderr?.on('data', (bytes: Buffer) => print?.stderr.write(bytes));
    let report: unknown = null;
    let failed: { readonly problem: string; readonly failure: Failure } | undefined;
    started.on('message', (news: ChildNews) => {
      if (news.kind === 'report') report = news.report;
      else if (news.kind === 'problem') failed = news;
      else {
        onLine?.(news);
        log[news.level]({ ...fields, ...news.fields }, news.message);
      }
    });
    // Notes and warnings to people, and what Node itself says.
    const lines = isReport && started.stderr !== null ? createInterface({ input: started.stderr }) : undefined;
    lines?.on('line', (line) => {
      if (line.trim() !== '') log.warn(fields, line);
    });
    // If it has ended before it could take its job, its end says so.
    started.send({ call, actor, run, given, output } satisfies ChildJob, () => {});
    const [exitCode, endedBy] = (await once(started, 'close')) as [number | null, NodeJS.Signals | null];
    const problem = failed?.problem ?? (endedBy === null ? null : `it was ended by ${endedBy}`);
    return { exitCode, report, problem, failure: failed?.failure ?? null };
  };
}
