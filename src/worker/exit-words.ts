/** What the end of a job means, in our own words: docs/commands.md, "Exit codes", has the numbers. */
import type { RunOutcome } from './store/store-types.ts';

const codes: Readonly<Record<number, string>> = {
  1: 'met a bug in admin-mirror',
  2: 'was refused: wrong settings or input, or a file that cannot be used',
  3: 'failed: the server refused the key',
  4: 'failed: the server could not be reached, or gave no answer of use',
  6: 'found a difference between the mirror and the server',
  8: 'sent something, and nobody knows whether it happened',
};

/** What is to be read behind the name of a job that did not come to a good end. */
export function outcomeOfExit(outcome: RunOutcome, exitCode: number | null): string {
  switch (outcome) {
    case 'locked':
      return 'did nothing: another run held the lock';
    case 'timed_out':
      return 'took longer than its timeout allows and was stopped';
    case 'interrupted':
      return 'was stopped by a signal';
    case 'killed':
      return 'ended with the worker, which died';
    case 'missed':
      return 'did not run: nobody was there at its time';
    case 'complete':
    case 'partial':
    case 'stopped':
    case 'skipped':
    case 'overlapped':
      return `is ${outcome}`;
    case 'failed':
      if (exitCode === null) return 'was ended by a signal, or could not be run';
      return `${codes[exitCode] ?? 'failed'} (exit code ${exitCode})`;
  }
}
