/** `bulk submit`, `approve` and `deny`: another person checks a batch before anything is sent. */
import type { Command } from 'commander';
import { approveBatch, denyBatch, submitBatch } from '../../bulk/approval.ts';
import { batchOf } from '../../bulk/claim.ts';
import { reportOf } from '../../bulk/report.ts';
import { rowsInJournal } from '../../bulk/review.ts';
import type { Batch, Journal } from '../../journal/port.ts';
import { UsageError } from '../../model/errors.ts';
import { systemClock } from '../../model/time.ts';
import { openPeople } from '../../people/open.ts';
import type { CliContext } from '../context.ts';
import { printOutcome, printResult } from '../output.ts';
import { signIn } from '../prompts.ts';
import { addAgainFlags, type AgainFlags, againOf, batchHelp, openBatch } from './shared.ts';
import { approvalLines, nextWords, noteRows, reportLines } from './words.ts';

interface SubmitFlags extends AgainFlags {
  readonly note?: string;
}

interface ApproveFlags {
  readonly as?: string;
  readonly hash?: string;
}

interface DenyFlags {
  readonly as?: string;
  readonly reason: string;
}

export function defineApproving(bulk: Command, context: CliContext): void {
  const as = 'your account; its password is asked for, or read as one line from standard input';
  const submit = bulk
    .command('submit')
    .description('Submit a planned batch for approval by another person. Sends nothing.')
    .argument('<batch>', batchHelp)
    .option('--note <text>', 'a note for the approver')
    .action(async (name: string, flags: SubmitFlags) => {
      const [journal, batch] = await openBatch(context, name);
      await submitBatch(journal, batch, { note: flags.note ?? null, again: againOf(flags) });
      await printApproval(context, journal, batch);
    });
  addAgainFlags(submit);
  bulk
    .command('approve')
    .description(
      'Approve a batch that another person made. Needs an account with the role approver and its password. Sends nothing.',
    )
    .argument('<batch>', batchHelp)
    .option('--as <name>', as)
    .option('--hash <hash>', 'approve only what has this hash: approval.hash of `bulk status --json`')
    .action((batch: string, flags: ApproveFlags) => runApprove(context, batch, flags));
  bulk
    .command('deny')
    .description('Deny a batch that waits for approval or was approved. Earlier approvals no longer count.')
    .argument('<batch>', batchHelp)
    .option('--as <name>', as)
    .requiredOption('--reason <text>', 'why; it stays on record')
    .action(async (name: string, flags: DenyFlags) => {
      const [journal, batch] = await openBatch(context, name);
      await denyBatch(portsFor(context, journal, flags), batch, flags.reason);
      await printApproval(context, journal, batch);
    });
}

async function runApprove(context: CliContext, name: string, flags: ApproveFlags): Promise<void> {
  const [journal, batch] = await openBatch(context, name);
  const report = await reportOf(journal, batch);
  const { approval } = report;
  if (flags.hash !== undefined && approval !== null && flags.hash !== approval.hash) {
    throw new UsageError('--hash does not match what is to be approved; nothing was approved', {
      advice: `Look at the plan first. \`admin-mirror bulk status ${batch.batch} --json\` has its hash as approval.hash.`,
    });
  }
  if (!context.json() && context.stderr.isTTY) {
    const lines = [...reportLines(context, report), ...approvalLines(report)];
    await noteRows(context, rowsInJournal(journal, batch), report, lines);
  }
  await approveBatch(portsFor(context, journal, flags), batch, approval?.hash ?? '');
  await printApproval(context, journal, batch);
}

function portsFor(context: CliContext, journal: Journal, { as }: Pick<DenyFlags, 'as'>) {
  const actor = context.actor();
  const people = () => openPeople(context.settings(), actor, systemClock, context.releases);
  return { journal, actor, signIn: async () => signIn(context, await people(), as) };
}

async function printApproval(context: CliContext, journal: Journal, { batch }: Batch): Promise<void> {
  const report = await reportOf(journal, await batchOf(journal, batch));
  printResult(context, report, [...reportLines(context, report), ...approvalLines(report)]);
  printOutcome(context, nextWords(report));
}
