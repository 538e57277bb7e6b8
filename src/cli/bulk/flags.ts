/** Flags that several parts of `bulk` share. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { DecimalMark } from '../../bulk/sheet/amount.ts';
import type { Again } from '../../bulk/approval.ts';
import { UsageError } from '../../model/errors.ts';
import { toCount } from '../flag-values.ts';
import { parseDuration } from '../../model/time.ts';

export interface PlanFlags extends AgainFlags {
  readonly sheet?: string;
  readonly decimal?: Exclude<DecimalMark, null>;
  readonly allowForce?: true;
}

interface AgainFlags {
  readonly again?: true;
  readonly acceptJournal?: true;
  readonly reason?: string;
}

export interface SendFlags extends AgainFlags {
  readonly approve?: string;
  readonly yes?: true;
  readonly rehearse?: true;
  readonly settleAfter?: number;
  readonly maxErrors: number;
}

/** Where nothing else is said, a batch whose rows fail one after the other does not fail to its end. */
const defaultMaxErrors = 100;

export function addPlanFlags(command: Command): Command {
  return command
    .option('--sheet <name>', 'the sheet of an .xlsx file; else the first that can be seen')
    .addOption(
      new Option('--decimal <mark>', 'what stands before the decimals of an amount').choices(['comma', 'point']),
    )
    .option(
      '--allow-force',
      'let rows of `delete` whose column force says yes delete in spite of orders and punishments',
    );
}

export function addPagerFlag(command: Command): Command {
  return command.option('--no-pager', 'print it all at once (default on a terminal: through $PAGER, else less)');
}

/** How a whole plan is read. */
export function addReviewFlags(command: Command): Command {
  return addPagerFlag(command)
    .option('-o, --output <file>', 'write every row to a new .xlsx or .csv file, to look through')
    .option('--force', 'replace the file if it is there');
}

export function addAgainFlags(command: Command): Command {
  return command
    .option('--again', 'send what was sent before a second time; needs --reason')
    .option('--reason <text>', 'why; it stays on record');
}

export function addSettleFlag(command: Command): Command {
  const what = 'how long a write that is nowhere to be seen stays unknown';
  return command.option('--settle-after <duration>', what, toDuration);
}

export function addSendFlags(command: Command): Command {
  return addSettleFlag(command)
    .option('--max-errors <n>', 'rows that may fail before it stops', toCount, defaultMaxErrors)
    .option('--accept-journal', 'take this journal for the right one although it lacks what was sent; needs --reason');
}

/** What the flags say about sending again. Throws a UsageError where the reason is missing. */
export function againOf({ again, reason, acceptJournal }: AgainFlags): Again {
  if (again !== true) {
    if (reason === undefined || acceptJournal === true) return { reason: null };
    throw new UsageError('--reason is for what is sent again, or for a journal that is accepted', {
      advice: 'Add --again or --accept-journal, or leave --reason out.',
    });
  }
  return { reason: reasonOf('--again', reason) };
}

/** Why the journal is taken for the right one; null where nobody says so. Throws a UsageError where the reason is missing. */
export function acceptedOf({ acceptJournal, reason }: AgainFlags): string | null {
  return acceptJournal === true ? reasonOf('--accept-journal', reason) : null;
}

function reasonOf(flag: string, reason: string | undefined): string {
  const words = reason?.trim() ?? '';
  if (words !== '') return words;
  throw new UsageError(`${flag} needs a reason`, { advice: 'Say why: --reason "…". It stays on record.' });
}

function toDuration(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new InvalidArgumentError('A duration is needed, such as 10m, or 0s.');
  return ms;
}
