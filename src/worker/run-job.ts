/** Runs the command of one job to its end and says what became of it. */
import type { Job } from '../model/job.ts';
import { durationText } from '../model/time.ts';
import type { Sleep } from './sleep.ts';
import type { JobRunEnd, NewJobRun, RunOutcome } from './store/store-types.ts';

/** How a command ended. */
export interface CommandEnd {
  /** null where a signal ended it. */
  readonly exitCode: number | null;
  /** What it printed under --json; null where that was no JSON. */
  readonly report: unknown;
  /** What it said was wrong. */
  readonly problem: string | null;
}

/**
 * Runs `admin-mirror` with these arguments. Once the signal is aborted, it ends in order within ten seconds, or is ended.
 * @param run for whom it is, to be told with what the command says
 */
export type RunCommand = (
  commandLine: readonly string[],
  run: Pick<NewJobRun, 'run' | 'job'>,
  signal: AbortSignal,
) => Promise<CommandEnd>;

export interface RunPorts {
  readonly runCommand: RunCommand;
  readonly sleep: Sleep;
  /** Aborted when the worker stops. */
  readonly signal: AbortSignal;
}

/** Runs the job. Never rejects: what cannot be run has failed. */
export async function runJob(job: Job, run: NewJobRun, { runCommand, sleep, signal }: RunPorts): Promise<JobRunEnd> {
  const tooLong = new AbortController();
  const ended = new AbortController();
  const limit = async (ms: number): Promise<void> => {
    await sleep(ms, AbortSignal.any([ended.signal, signal]));
    if (!ended.signal.aborted && !signal.aborted) tooLong.abort();
  };
  if (job.timeoutMs !== undefined) {
    void limit(job.timeoutMs);
  }
  try {
    const end = await runCommand(job.commandLine, run, AbortSignal.any([signal, tooLong.signal]));
    const outcome = outcomeOf(end.exitCode, { timedOut: tooLong.signal.aborted, stopped: signal.aborted });
    return { ...end, outcome, problem: outcome === 'timed_out' ? timeoutWords(job) : end.problem };
  } catch (error) {
    const problem = `the command could not be run: ${error instanceof Error ? error.message : String(error)}`;
    return { outcome: 'failed', exitCode: null, problem, report: null };
  } finally {
    ended.abort();
  }
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
  { timedOut, stopped }: { readonly timedOut: boolean; readonly stopped: boolean },
): RunOutcome {
  if (exitCode === 0) return 'complete';
  if (timedOut) return 'timed_out';
  if (stopped) return 'stopped';
  return outcomes[exitCode ?? 1] ?? 'failed';
}

function timeoutWords({ timeoutMs = 0 }: Job): string {
  return `it took longer than the ${durationText(timeoutMs)} that its timeout allows`;
}
