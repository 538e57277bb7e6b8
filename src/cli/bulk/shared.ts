/** What the subcommands of `bulk` share: flags, and opening the journal and a batch. */
import { type Command, Option } from 'commander';
import type { Again } from '../../bulk/approval.ts';
import { batchOf } from '../../bulk/claim.ts';
import { defaultMaxErrors } from '../../bulk/sending.ts';
import { openBulkPorts } from '../../bulk/open.ts';
import type { BatchSummary } from '../../bulk/report.ts';
import type { DecimalMark } from '../../bulk/sheet/amount.ts';
import { openJournal, openJournalForReading } from '../../journal/open.ts';
import type { Batch, Journal } from '../../journal/port.ts';
import { UsageError } from '../../model/errors.ts';
import { systemClock } from '../../model/time.ts';
import type { CliContext } from '../context.ts';
import { toCount, toWait } from '../flag-values.ts';
import { openSurroundings } from '../logger.ts';

export interface AgainFlags {
  readonly again?: true;
  readonly reason?: string;
}

export interface PlanFlags extends AgainFlags {
  readonly name?: string;
  readonly column?: readonly string[];
  readonly sheet?: string;
  readonly decimal?: Exclude<DecimalMark, null>;
  readonly allowForce?: true;
}

export interface SendFlags extends AgainFlags {
  readonly approve?: string;
  readonly yes?: true;
  readonly rehearse?: true;
  readonly settleAfter?: number;
  readonly maxErrors: number;
}

/** Help of the argument `<batch>`. */
export const batchHelp = 'its name, as `bulk plan` prints it';

/** The same for commands that only look at a batch. */
export const lookHelp = `${batchHelp}; \`last\` is the newest`;

export function addPlanFlags(command: Command): Command {
  return command
    .option('--name <words>', 'what to call the batch (default: the name of the file)')
    .option('--sheet <name>', 'the sheet of an .xlsx file (default: the first visible one)')
    .option(
      '--column <theirs=ours>',
      'read a column of the file as one of the action, as in Betrag=amount; may be given several times',
      (each: string, before: readonly string[] | undefined): readonly string[] => [...(before ?? []), each],
    )
    .addOption(new Option('--decimal <mark>', 'the decimal mark of amounts').choices(['comma', 'point']))
    .option(
      '--allow-force',
      'let rows of `delete` with yes in the column force delete users who have orders or punishments',
    );
}

export function addAgainFlags(command: Command): Command {
  return command
    .option('--again', 'send a second time what was sent before; needs --reason')
    .option('--reason <text>', 'why; it stays on record');
}

export function addSettleFlag(command: Command): Command {
  const help = 'how long a write that cannot be found on the server stays unknown';
  return command.option('--settle-after <duration>', help, toWait);
}

export function addSendFlags(command: Command): Command {
  return addSettleFlag(command).option('--max-errors <n>', 'stop after <n> failed rows', toCount, defaultMaxErrors);
}

/** Reads the flags about sending again. Throws a UsageError if the reason is missing. */
export function againOf({ again, reason }: AgainFlags): Again {
  if (again === true) return { reason: reasonOf('--again', reason) };
  if (reason === undefined) return { reason: null };
  throw new UsageError('--reason needs --again', { advice: 'Add --again, or leave --reason out.' });
}

export function reasonOf(flag: string, reason: string | undefined): string {
  const words = reason?.trim() ?? '';
  if (words !== '') return words;
  throw new UsageError(`${flag} needs a reason`, { advice: 'Say why: --reason "…". It stays on record.' });
}

export type BulkPorts = Awaited<ReturnType<typeof openBulk>>;

/** @param rehearsal the journal is only for this run, and the mirror must not remember it */
export async function openBulk(context: CliContext, rehearsal = false) {
  let batch: string | undefined;
  const surroundings = openSurroundings(context, () => ({ batch }));
  return {
    ...(await openBulkPorts(surroundings, context.actor(), context.releases, rehearsal)),
    log: surroundings.log,
    /** Adds the batch to every later line of the log. */
    about: (name: string): void => {
      batch = name;
    },
  };
}

/** Opens the journal for reading; undefined if there is none. */
export function lookAtJournal(context: CliContext): Promise<Journal | undefined> {
  return openJournalForReading(context.settings(), systemClock, context.releases);
}

/** Opens the journal for writing, and finds the batch. Throws a UsageError if there is none of that name. */
export async function openBatch(context: CliContext, name: string): Promise<[Journal, Batch]> {
  const journal = await openJournal(context.settings(), context.actor(), systemClock, context.releases);
  return [journal, await batchOf(journal, name)];
}

/** Opens the journal for reading, and finds the batch; `last` is the newest. Throws a UsageError if there is none of that name. */
export async function batchToLookAt(context: CliContext, name: string): Promise<[Journal, Batch]> {
  const journal = await lookAtJournal(context);
  if (journal === undefined) {
    const which = name === 'last' ? '' : ` ${name}`;
    throw new UsageError(`there is no batch${which}`, { advice: 'Nothing was planned yet.' });
  }
  // `last` is only for looking: a command that sends might easily get another batch than the user means.
  const newest = name === 'last' ? (await journal.batches())[0] : undefined;
  return [journal, newest ?? (await batchOf(journal, name))];
}

/** Sets exit code 8 if any outcome is unknown, so that no subcommand reports an unknown outcome with 0. */
export function setExitCode(context: CliContext, reports: readonly Pick<BatchSummary, 'counts'>[]): void {
  if (reports.some(({ counts }) => counts.unknown > 0)) context.exit(8);
}
