/** `bulk status`, `results` and `resolve`: what became of a batch, and a person's word on it. */
import { resolve } from 'node:path';
import { counted } from '../../model/counted.ts';
import type { TableFormat } from '../../model/table.ts';
import { openStates } from '../../bulk/intent.ts';
import { UsageError } from '../../model/errors.ts';
import { systemClock } from '../../model/time.ts';
import type { Batch, Journal } from '../../journal/port.ts';
import { openJournal } from '../../journal/open.ts';
import { withReleases } from '../../model/releases.ts';
import { resolveRow } from '../../bulk/settle.ts';
import { reportLines } from './words.ts';
import type { CliContext } from '../context.ts';
import { printJson, printLine, printWarning } from '../output.ts';
import { printRows, wholePlan } from './review.ts';
import { withJournal } from './world.ts';
import { batchOf } from '../../bulk/claim.ts';
import { type BatchReport, recordOf, reportOf } from '../../bulk/report.ts';
import { writeResults } from '../../bulk/results.ts';
import { tableWriter } from '../../data/table-file.ts';
import * as words from './words.ts';
import { totalLines } from './words.ts';

/** Nothing that is unknown ends with 0, whichever part of `bulk` reports it. */
export function exitOf(context: CliContext, reports: readonly Pick<BatchReport, 'counts'>[]): void {
  if (reports.some(({ counts }) => counts.unknown > 0)) context.exit(8);
}

export interface StatusFlags {
  readonly rows?: true;
  readonly pager: boolean;
}

export async function runStatus(context: CliContext, name: string | undefined, flags: StatusFlags): Promise<void> {
  if (flags.rows === true && name === undefined) {
    throw new UsageError('--rows needs a batch', { advice: 'Name one, or `last` for the newest.' });
  }
  await withJournal(context, async (journal) => {
    if (name === undefined) {
      const reports: BatchReport[] = [];
      for (const batch of (await journal?.batches()) ?? []) if (journal) reports.push(await reportOf(journal, batch));
      exitOf(context, reports);
      const head = (await journal?.head()) ?? null;
      if (context.json()) printJson(context, { batches: reports, head });
      else if (reports.length === 0) printLine(context, 'nothing was planned yet');
      else for (const each of reports) printLine(context, words.batchLine(each));
      return;
    }
    const [there, batch] = await named(journal, name);
    const report = await reportOf(there, batch);
    exitOf(context, [report]);
    const record = await recordOf(there, batch);
    const whole = flags.rows === true ? await wholePlan(there, batch) : {};
    if (context.json()) return printJson(context, { ...report, ...record, ...whole });
    const lines = [
      ...words.reportLines(context, report),
      `hash      ${report.hash}`,
      ...words.peopleLines(record),
      ...words.approvalLines(report),
    ];
    for (const line of [...lines, ...words.problemLines(context, report), ...(await openLines(there, batch))]) {
      printLine(context, line);
    }
    if (flags.rows !== true) return;
    printLine(context, '');
    await printRows(context, there, batch, flags.pager);
  });
}

/** Rows of a kind that are shown one by one. */
const mostRows = 25;

/** The rows that contradict their balance, and those whose outcome is open, each with what was seen. */
async function openLines(journal: Journal, { batch }: Batch): Promise<string[]> {
  const differing: string[] = [];
  for await (const { row, user, problem, discrepancy } of journal.intents(batch, ['applied'])) {
    if (discrepancy !== null) differing.push(`differs   row ${row}, user ${user}: ${problem}`);
    if (differing.length === mostRows) break;
  }
  const open: string[] = [];
  let person: number | undefined;
  for await (const { row, state, user, token, problem } of journal.intents(batch, openStates)) {
    const what = state === 'needs_human' ? 'needs a person' : 'unknown';
    open.push(`${what}   row ${row}, user ${user ?? 'new'}, ${token}: ${problem ?? 'not looked at yet'}`);
    if (state === 'needs_human') person ??= row;
    if (open.length === mostRows) break;
  }
  const lines = [...differing, ...open];
  if (person !== undefined) {
    lines.push(
      'Look at the user on the server, then say what you saw: ' +
        `admin-mirror bulk resolve ${batch} --row ${person} --applied (or --not-applied) --reason "…"`,
    );
  }
  return lines;
}

/** The batch of that name; `last` is the newest. Throws a UsageError where there is none. */
export async function named(journal: Journal | undefined, name: string): Promise<[Journal, Batch]> {
  if (journal === undefined) throw new UsageError(`there is no batch ${name}`, { advice: 'Nothing was planned yet.' });
  // Good enough to look at a batch, and too easily another one where something is sent.
  const newest = name === 'last' ? (await journal.batches())[0] : undefined;
  return [journal, newest ?? (await batchOf(journal, name))];
}

export interface ResultsFlags {
  readonly output?: string;
  readonly format: TableFormat;
  readonly force?: true;
}

export async function runResults(context: CliContext, name: string, flags: ResultsFlags): Promise<void> {
  await withJournal(context, async (found) => {
    const [journal, batch] = await named(found, name);
    const folder = flags.output ?? `bulk-${batch.batch}`;
    const writer = tableWriter(flags.format, context.signal, (warning) => printWarning(context, warning));
    const ports = { journal, clock: systemClock, signal: context.signal };
    const manifest = await writeResults(ports, batch, resolve(context.folder, folder), writer, flags.force === true);
    const report = await reportOf(journal, batch);
    exitOf(context, [report]);
    if (context.json()) return printJson(context, { folder, ...manifest });
    for (const line of totalLines(context, report)) printLine(context, line);
    for (const { name: file, rows, bytes } of manifest.files) {
      printLine(context, `${folder}/${file.padEnd(16)}  ${counted(rows, 'row')}, ${counted(bytes, 'byte')}`);
    }
    printLine(context, `${folder}/manifest.json`);
  });
}

export interface ResolveFlags {
  readonly row: number;
  readonly applied?: true;
  readonly notApplied?: true;
  readonly resend?: true;
  readonly reason: string;
}

export async function runResolve(context: CliContext, name: string, flags: ResolveFlags): Promise<void> {
  if ((flags.applied === true) === (flags.notApplied === true)) {
    throw new UsageError('say what happened: --applied or --not-applied');
  }
  await withReleases(async (releases) => {
    const journal = await openJournal(context.settings(), context.actor(), systemClock, releases);
    const batch = await batchOf(journal, name);
    await resolveRow(journal, batch, {
      row: flags.row,
      outcome: flags.applied === true ? 'applied' : 'not_applied',
      resend: flags.resend === true,
      reason: flags.reason,
    });
    const report = await reportOf(journal, await batchOf(journal, name));
    exitOf(context, [report]);
    if (context.json()) printJson(context, report);
    else for (const line of reportLines(context, report)) printLine(context, line);
  });
}
