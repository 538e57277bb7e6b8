/** What to do next about what is wrong, for alerts and for `status`: a command in backquotes, as one would type it. */
import type { RunOutcome } from './store/store-types.ts';

export const steps = {
  doctor: 'Next: `admin-mirror doctor` says what is wrong and where to set it',
  status: 'Next: `admin-mirror status` says which part and why; then `admin-mirror sync`',
  sync: 'Next: `admin-mirror sync` reads again what is open; where it stays, `admin-mirror doctor`',
  verify: 'Next: `admin-mirror sync`, then `admin-mirror verify`; what stays is worth a report',
  removals:
    'Next: look at the server; where they are gone on purpose, `admin-mirror sync --allow-deletions` removes them here',
  file: 'Next: make room, or mend the permissions, in the folder of the mirror',
  log: 'Next: read the log of that run; `admin-mirror schedule --once NAME` runs a job now',
  batch: (batch: string) =>
    `Next: \`admin-mirror bulk resume ${batch}\` looks again; do not send those rows by other means`,
} as const;

/** By how a job ended; null where nothing is to be done. */
export function nextStepOf(outcome: RunOutcome | null, exitCode: number | null): string | null {
  switch (outcome) {
    case 'partial':
      return steps.status;
    case 'failed':
      return byExitCode[exitCode ?? 1] ?? steps.log;
    case 'locked':
      return 'Next: wait for the other run, or see which it is with `admin-mirror status`';
    case 'timed_out':
      return 'Next: raise the timeout of the job; what was read is kept';
    case 'missed':
    case 'killed':
    case 'interrupted':
      return 'Next: see that the worker runs (`admin-mirror status`); the next run goes on where this one was';
    case 'complete':
    case 'stopped':
    case 'skipped':
    case 'overlapped':
    case null:
      return null;
  }
}

const byExitCode: Readonly<Record<number, string>> = {
  2: steps.doctor,
  3: steps.doctor,
  4: steps.doctor,
  5: steps.status,
  6: steps.verify,
  8: 'Next: `admin-mirror bulk status` names the batch; go on with `admin-mirror bulk resume`',
};

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
