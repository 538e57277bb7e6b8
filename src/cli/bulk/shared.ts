/** What the parts of `bulk` share: flags, and what they open. */
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
import { openLog } from '../logger.ts';

export interface AgainFlags {
  readonly again?: true;
  readonly acceptJournal?: true;
  readonly reason?: string;
}

export interface PlanFlags extends AgainFlags {
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

export function addAgainFlags(command: Command): Command {
  return command
    .option('--again', 'send what was sent before a second time; needs --reason')
    .option('--reason <text>', 'why; it stays on record');
}

export function addSettleFlag(command: Command): Command {
  const what = 'how long a write that is nowhere to be seen stays unknown';
  return command.option('--settle-after <duration>', what, toWait);
}

export function addSendFlags(command: Command): Command {
  return addSettleFlag(command)
    .option('--max-errors <n>', 'rows that may fail before it stops', toCount, defaultMaxErrors)
    .option('--accept-journal', 'take this journal for the right one although it lacks what was sent; needs --reason');
}

/** What the flags say about sending again. Throws a UsageError where the reason is missing. */
export function againOf({ again, reason, acceptJournal }: AgainFlags): Again {
  if (again === true) return { reason: reasonOf('--again', reason) };
  if (reason === undefined || acceptJournal === true) return { reason: null };
  throw new UsageError('--reason is for what is sent again, or for a journal that is accepted', {
    advice: 'Add --again or --accept-journal, or leave --reason out.',
  });
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

export type BulkPorts = Awaited<ReturnType<typeof openBulk>>;

/** @param rehearsal the journal is one for this run alone, of which the mirror must know nothing */
export async function openBulk(context: CliContext, rehearsal = false) {
  let batch: string | undefined;
  const log = await openLog(context, () => ({ batch }));
  const surroundings = { settings: context.settings(), log, clock: systemClock, signal: context.signal };
  return {
    ...(await openBulkPorts(surroundings, context.actor(), context.releases, rehearsal)),
    log,
    /** From now on, the lines of the log are about that batch. */
    about: (name: string): void => {
      batch = name;
    },
  };
}

/** The journal as it is, to be looked at; undefined where there is none. */
export function lookAtJournal(context: CliContext): Promise<Journal | undefined> {
  return openJournalForReading(context.settings(), systemClock, context.releases);
}

/** A journal to write to, and the batch of that name. Throws a UsageError where there is none. */
export async function openBatch(context: CliContext, name: string): Promise<[Journal, Batch]> {
  const journal = await openJournal(context.settings(), context.actor(), systemClock, context.releases);
  return [journal, await batchOf(journal, name)];
}

/** The batch to look at; `last` is the newest. Throws a UsageError where there is none. */
export async function named(context: CliContext, name: string): Promise<[Journal, Batch]> {
  const journal = await lookAtJournal(context);
  if (journal === undefined) {
    const which = name === 'last' ? '' : ` ${name}`;
    throw new UsageError(`there is no batch${which}`, { advice: 'Nothing was planned yet.' });
  }
  // Good enough to look at a batch, and too easily another one where something is sent.
  const newest = name === 'last' ? (await journal.batches())[0] : undefined;
  return [journal, newest ?? (await batchOf(journal, name))];
}

/** Nothing that is unknown ends with 0, whichever part of `bulk` reports it. */
export function exitOf(context: CliContext, reports: readonly Pick<BatchSummary, 'counts'>[]): void {
  if (reports.some(({ counts }) => counts.unknown > 0)) context.exit(8);
}
