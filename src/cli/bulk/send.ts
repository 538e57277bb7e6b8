/** `bulk apply`, `run` and `resume`: asks for consent, sends a batch and reports its outcome. */
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { actionOf } from '../../bulk/actions.ts';
import { checkApprovedOrSubmit } from '../../bulk/approval.ts';
import { batchOf, checkFile, checkServer, type Consent } from '../../bulk/claim.ts';
import { consentQuestion, reportOf } from '../../bulk/report.ts';
import { checkSendable } from '../../bulk/send-batch.ts';
import { UsageError } from '../../model/errors.ts';
import { minuteOf } from '../../model/time.ts';
import type { CliContext } from '../context.ts';
import { printJson, printNote, printResult } from '../output.ts';
import { canAsk, noteServer, promptForConsent } from '../prompts.ts';
import { invalidRows, type Job, sendWatched } from './job.ts';
import { actionArgument, isValid, notePlan, planRows, readFile } from './plan.ts';
import { rehearse } from './rehearse.ts';
import {
  addAgainFlags,
  addPlanFlags,
  addSendFlags,
  againOf,
  batchHelp,
  openBulk,
  type PlanFlags,
  type SendFlags,
} from './shared.ts';
import { reportLines } from './words.ts';

export function defineSending(bulk: Command, context: CliContext): void {
  const applying = bulk
    .command('apply')
    .description('Send a planned batch, after you type its net total, give the hash of the plan, or say --yes.')
    .argument('<batch>', batchHelp)
    .option('--approve <hash>', 'the hash of the plan, for scripts: instead of typing the total')
    .addOption(new Option('--yes', 'do not ask before sending').conflicts('approve'))
    .action(async (batch: string, flags: SendFlags) => apply(await openJob(context, batch, flags)));
  addAgainFlags(addSendFlags(applying));

  const run = bulk
    .command('run')
    .description('Plan, then send if every row is valid.')
    .addArgument(actionArgument())
    .argument('<file>', 'a .csv, .tsv, .xlsx or .jsonl file')
    .option('--yes', 'do not ask before sending')
    .option('--rehearse', 'send it to a sandbox that is loaded from the mirror; the server gets no request')
    .action((action: string, file: string, flags: PlanFlags & SendFlags) =>
      flags.rehearse === true ? rehearse(context, action, file, flags, run) : runRun(context, action, file, flags),
    );
  addAgainFlags(addSendFlags(addPlanFlags(run)));

  const resume = bulk
    .command('resume')
    .description('Continue a batch that was stopped: settle what was under way, then send the rest.')
    .argument('<batch>', batchHelp)
    .action((batch: string, flags: SendFlags) => runResume(context, batch, flags));
  addAgainFlags(addSendFlags(resume));
}

async function runRun(
  context: CliContext,
  actionName: string,
  file: string,
  flags: PlanFlags & SendFlags,
): Promise<void> {
  const ports = await openBulk(context);
  const read = await readFile(context, actionName, file, flags);
  const plan = await planRows(ports, read, true);
  const { batch, report } = plan;
  if (plan.isEarlier) {
    const at = minuteOf(batch.createdAt);
    printNote(context, `This file was planned on ${at}, and the plan still holds. Going on with batch ${batch.batch}.`);
  }
  await notePlan(context, plan);
  if (!isValid(report)) {
    if (context.json()) printJson(context, report);
    throw invalidRows(report, 'nothing was sent', 'Correct them in the file, and run the command again.');
  }
  try {
    await checkApprovedOrSubmit(ports.journal, batch, againOf(flags));
  } catch (error) {
    if (context.json()) printJson(context, await reportOf(ports.journal, batch));
    throw error;
  }
  await apply({ context, ports, batch, action: read.action, flags });
}

async function runResume(context: CliContext, name: string, flags: SendFlags): Promise<void> {
  const job = await openJob(context, name, flags);
  const { ports, batch } = job;
  if (batch.state === 'planned') {
    throw new UsageError(`batch ${name} was never started`, { advice: `Run \`admin-mirror bulk apply ${name}\`.` });
  }
  await checkServer(batch, ports.client, context.signal);
  await sendAndReport(job, { ...ports.rules, again: againOf(flags), approved: null });
}

/** Looks for every row of the batch on the server, and records what it finds. */
export async function adoptRows(
  context: CliContext,
  name: string,
  { settleAfter }: Pick<SendFlags, 'settleAfter'>,
): Promise<void> {
  const flags = { maxErrors: 1, ...(settleAfter !== undefined && { settleAfter }) };
  const job = await openJob(context, name, flags);
  await checkServer(job.batch, job.ports.client, context.signal);
  await sendAndReport(job, null);
}

/** Opens what sending a batch needs. Throws a UsageError if there is no batch of that name. */
async function openJob(context: CliContext, name: string, flags: SendFlags): Promise<Job> {
  const ports = await openBulk(context);
  const batch = await batchOf(ports.journal, name);
  ports.about(batch.batch);
  return { context, ports, batch, action: actionOf(batch.action), flags };
}

async function apply(job: Job): Promise<void> {
  const { context, ports, batch, flags } = job;
  const again = againOf(flags);
  const file = batch.file === null ? null : resolve(context.folder, batch.file);
  await checkSendable(ports, batch, { file, again });
  const approved = await approve(job);
  // It may have been saved again while the question was open.
  checkFile(batch, file);
  await sendAndReport(job, { ...ports.rules, again, approved });
}

/** Gets the sender's consent. Returns how it was given. Throws a UsageError without it. */
async function approve({ context, ports, batch, action, flags }: Job): Promise<string> {
  const { approve: hash, yes } = flags;
  if (hash !== undefined) {
    if (hash === batch.hash) return 'by the hash of the plan';
    throw new UsageError('--approve is not the hash of this plan; nothing was sent', {
      advice: `Look at the plan before you approve it. \`admin-mirror bulk status ${batch.batch} --json\` has its hash.`,
    });
  }
  if (yes === true) return 'beforehand';
  if (!canAsk(context)) {
    throw new UsageError(
      `cannot ask for consent to send batch ${batch.batch}: there is no terminal; nothing was sent`,
      {
        advice: `Look at the plan, then run \`admin-mirror bulk apply ${batch.batch} --approve ${batch.hash}\`.`,
      },
    );
  }
  const { currency } = context.settings().bulk;
  const question = await consentQuestion(ports.journal, batch, action, ports.client.address, currency);
  await promptForConsent(context, question, false);
  return `by typing ${question.typed}`;
}

/** @param consent null to send nothing and only look for every row */
function sendAndReport(job: Job, consent: Consent | null): Promise<void> {
  const { context, ports, batch } = job;
  const doing = consent === null ? 'looking for every row of' : 'sending';
  noteServer(context, `${doing} batch ${batch.batch} at ${ports.client.address}`);
  return sendWatched(job, consent, async (report, error) => {
    printResult(context, report, reportLines(context, report));
    if (report.state === 'stopped' && error?.advice?.includes('bulk resume') !== true) {
      printNote(context, `Stopped before the end. To continue: admin-mirror bulk resume ${report.batch}`);
    }
  });
}
