/** `bulk submit`, `approve` and `deny`: a second pair of eyes, before anything goes out. */
import { approveBatch, denyBatch, submitBatch } from '../../bulk/approval.ts';
import { batchOf } from '../../bulk/claim.ts';
import { reportOf } from '../../bulk/report.ts';
import { notedRows } from '../../bulk/review.ts';
import { openJournal } from '../../journal/open.ts';
import type { Batch, Journal } from '../../journal/port.ts';
import { UsageError } from '../../model/errors.ts';
import { type Releases, withReleases } from '../../model/releases.ts';
import { systemClock } from '../../model/time.ts';
import { openPeople } from '../../people/open.ts';
import type { CliContext } from '../context.ts';
import { printJson, printLine, printNote } from '../output.ts';
import { signIn } from '../sign-in.ts';
import { againOf, type PlanFlags } from './flags.ts';
import { approvalLines, firstRows, lookLines, nextWords, reportLines } from './words.ts';

export interface SubmitFlags extends Pick<PlanFlags, 'again' | 'reason'> {
  readonly note?: string;
}

export async function runSubmit(context: CliContext, name: string, flags: SubmitFlags): Promise<void> {
  await withBatch(context, name, async (journal, batch) => {
    await submitBatch(journal, batch, { note: flags.note ?? null, again: againOf(flags) });
    await printApproval(context, journal, batch);
  });
}

export interface ApproveFlags {
  readonly as?: string;
  readonly hash?: string;
}

export async function runApprove(context: CliContext, name: string, flags: ApproveFlags): Promise<void> {
  await withBatch(context, name, async (journal, batch, releases) => {
    const { approval } = await reportOf(journal, batch);
    if (flags.hash !== undefined && approval !== null && flags.hash !== approval.hash) {
      throw new UsageError('--hash is not what is to be approved; nothing was approved', {
        advice: `\`admin-mirror bulk status ${batch.batch} --json\` has it as approval.hash. Look at the plan first.`,
      });
    }
    const ports = { journal, actor: context.actor(), signIn: () => signedIn(context, releases, flags.as) };
    await noteBatch(context, journal, batch);
    await approveBatch(ports, batch, approval?.hash ?? '');
    await printApproval(context, journal, batch);
  });
}

export interface DenyFlags {
  readonly as?: string;
  readonly reason: string;
}

export async function runDeny(context: CliContext, name: string, { as, reason }: DenyFlags): Promise<void> {
  await withBatch(context, name, async (journal, batch, releases) => {
    const ports = { journal, actor: context.actor(), signIn: () => signedIn(context, releases, as) };
    await denyBatch(ports, batch, reason);
    await printApproval(context, journal, batch);
  });
}

async function signedIn(context: CliContext, releases: Releases, as: string | undefined) {
  const people = await openPeople(context.settings(), context.actor(), systemClock, releases);
  return signIn(context, people, as);
}

async function withBatch(
  context: CliContext,
  name: string,
  work: (journal: Journal, batch: Batch, releases: Releases) => Promise<void>,
): Promise<void> {
  await withReleases(async (releases) => {
    const journal = await openJournal(context.settings(), context.actor(), systemClock, releases);
    await work(journal, await batchOf(journal, name), releases);
  });
}

/** What is about to be approved, for whoever is asked next for a password. */
async function noteBatch(context: CliContext, journal: Journal, batch: Batch): Promise<void> {
  if (context.json() || !context.stderr.isTTY) return;
  const report = await reportOf(journal, batch);
  const rows = await firstRows(journal.intents(batch.batch), report, context.stderr.columns);
  const looks = lookLines(context, await notedRows(journal, batch.batch));
  const lines = [...looks, ...rows, '', ...reportLines(context, report), ...approvalLines(report)];
  for (const line of lines) printNote(context, line);
}

async function printApproval(context: CliContext, journal: Journal, { batch }: Batch): Promise<void> {
  const report = await reportOf(journal, await batchOf(journal, batch));
  if (context.json()) return printJson(context, report);
  for (const line of [...reportLines(context, report), ...approvalLines(report)]) printLine(context, line);
  printNote(context, nextWords(report));
}
