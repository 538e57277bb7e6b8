/** `bulk apply`, `run` and `resume`: a batch is approved, sent, and what became of it is told. */
import { counted } from '../../model/counted.ts';
import type { Action } from '../../bulk/action.ts';
import { UsageError } from '../../model/errors.ts';
import type { Batch } from '../../journal/port.ts';
import { promptForConsent, noteProfile } from '../consent.ts';
import type { CliContext } from '../context.ts';
import { printJson, printLine, printNote } from '../output.ts';
import { acceptedOf, againOf, type PlanFlags, type SendFlags } from './flags.ts';
import { notePlan, planFile } from './plan.ts';
import { type BulkPorts, fileOf, openBulk } from './world.ts';
import { realSleep } from '../../api/transmission.ts';
import { actionOfBatch } from '../../bulk/actions.ts';
import { checkApprovedOrSubmit } from '../../bulk/approval.ts';
import { batchOf, checkServer, type Consent } from '../../bulk/claim.ts';
import { type BatchReport, consentQuestion, reportOf } from '../../bulk/report.ts';
import { checkSendable, endError, reconcileBatch, reportSent, sendBatch } from '../../bulk/send-batch.ts';
import { openBulkWatch } from '../progress.ts';
import { reportLines } from './words.ts';
import { withReleases } from '../../model/releases.ts';

export async function runApply(context: CliContext, name: string, flags: SendFlags): Promise<void> {
  await withBatch(context, name, (ports, batch, action) => apply(context, ports, batch, action, flags));
}

export async function runRun(
  context: CliContext,
  actionName: string,
  file: string,
  flags: PlanFlags & SendFlags,
): Promise<void> {
  await withReleases(async (releases) => {
    const ports = await openBulk(context, releases);
    const { batch, action } = await planFile(context, ports, actionName, file, flags);
    const report = await notePlan(context, ports, batch);
    if (report.counts.invalid > 0 || report.problems.length > 0) {
      if (context.json()) printJson(context, report);
      throw new UsageError(
        `${report.counts.invalid} of ${counted(report.rows, 'row')} ${report.counts.invalid === 1 ? 'is' : 'are'} invalid; nothing was sent`,
        {
          advice: 'Correct them in the file, and run it again.',
        },
      );
    }
    try {
      await checkApprovedOrSubmit(ports.journal, batch, againOf(flags));
    } catch (error) {
      if (context.json()) printJson(context, await reportOf(ports.journal, batch));
      throw error;
    }
    await apply(context, ports, batch, action, flags);
  });
}

export async function runResume(context: CliContext, name: string, flags: SendFlags): Promise<void> {
  await withBatch(context, name, async (ports, batch, action) => {
    if (batch.state === 'planned') {
      throw new UsageError(`batch ${name} was never approved`, { advice: `Run \`admin-mirror bulk apply ${name}\`.` });
    }
    await checkServer(batch, ports.client, context.signal);
    const consent = { ...ports.rules, again: againOf(flags), approved: null };
    await sendAndReport(context, ports, batch, action, flags, consent);
  });
}

/** Looks for every row of the batch on the server, and records what is found. */
export async function adoptRows(
  context: CliContext,
  name: string,
  { settleAfter }: Pick<SendFlags, 'settleAfter'>,
): Promise<void> {
  await withBatch(context, name, async (ports, batch, action) => {
    await checkServer(batch, ports.client, context.signal);
    const flags = { maxErrors: 1, ...(settleAfter !== undefined && { settleAfter }) };
    await sendAndReport(context, ports, batch, action, flags, null);
  });
}

/** Runs the work with the batch of that name. Throws a UsageError where there is none. */
async function withBatch(
  context: CliContext,
  name: string,
  work: (ports: BulkPorts, batch: Batch, action: Action) => Promise<void>,
): Promise<void> {
  await withReleases(async (releases) => {
    const ports = await openBulk(context, releases);
    const batch = await batchOf(ports.journal, name);
    ports.about(batch.batch);
    await work(ports, batch, actionOfBatch(batch));
  });
}

async function apply(
  context: CliContext,
  ports: BulkPorts,
  batch: Batch,
  action: Action,
  flags: SendFlags,
): Promise<void> {
  const { rules } = ports;
  const again = againOf(flags);
  await checkSendable(ports, batch, { file: fileOf(context, batch), again, acceptJournal: acceptedOf(flags) });
  const approved = await approve(context, ports, batch, action, flags);
  await sendAndReport(context, ports, batch, action, flags, { ...rules, again, approved });
}

/** Throws a UsageError where nobody approves. Gives how it was approved. */
async function approve(
  context: CliContext,
  { journal, client }: BulkPorts,
  batch: Batch,
  action: Action,
  { approve: hash, yes }: SendFlags,
): Promise<string> {
  if (hash !== undefined) {
    if (hash === batch.hash) return 'by the hash of the plan';
    throw new UsageError('--approve is not the hash of this plan; nothing was sent', {
      advice: `\`admin-mirror bulk status ${batch.batch} --json\` has it. Look at the plan before you approve it.`,
    });
  }
  if (yes === true) return 'beforehand';
  if (!context.stdin.isTTY || !context.stderr.isTTY) {
    throw new UsageError(`batch ${batch.batch} must be approved, and nobody can be asked here; nothing was sent`, {
      advice: `Look at the plan, then run \`admin-mirror bulk apply ${batch.batch} --approve ${batch.hash}\`.`,
    });
  }
  const question = await consentQuestion(journal, batch, action, client.address);
  await promptForConsent(context, question, false);
  return `by typing ${question.typed}`;
}

/** @param consent null where nothing is to be sent, and every row is only looked for */
function sendAndReport(
  context: CliContext,
  ports: BulkPorts,
  batch: Batch,
  action: Action,
  flags: SendFlags,
  consent: Consent | null,
): Promise<void> {
  const doing = consent === null ? 'looking for every row of' : 'sending';
  noteProfile(context, `${doing} batch ${batch.batch} at ${ports.client.address}`);
  return sendWatched(context, ports, batch, action, flags, consent, async (report) => {
    if (context.json()) printJson(context, report);
    else {
      for (const line of reportLines(context, report)) printLine(context, line);
    }
    if (context.signal.aborted && report.state === 'stopped') {
      printNote(context, `Stopped before its end. To go on: admin-mirror bulk resume ${report.batch}`);
    }
  });
}

/** Sends while somebody watches, and ends as the batch did, after what became of it was told. */
export async function sendWatched(
  context: CliContext,
  ports: BulkPorts,
  batch: Batch,
  action: Action,
  flags: SendFlags,
  consent: Consent | null,
  emit: (report: BatchReport) => Promise<void>,
): Promise<void> {
  const { journal, client, clock, signal, surroundings, memory } = ports;
  const { settleAfterMs, concurrency, againWithinMs } = context.settings().bulk;
  const options = {
    settleAfterMs: flags.settleAfter ?? settleAfterMs,
    concurrency,
    maxErrors: flags.maxErrors,
    againWithinMs,
    acceptJournal: acceptedOf(flags),
  };
  const drain = (): void => {
    printNote(context, 'Finishing what is under way. Ctrl+C again stops at once and leaves it unknown.');
  };
  signal.addEventListener('abort', drain, { once: true });
  const watch = openBulkWatch(context, surroundings.log, clock);
  context.sends();
  let stop;
  try {
    const sending = {
      journal,
      memory,
      client,
      clock,
      sleep: context.sleep ?? realSleep,
      signal,
      progress: watch.progress,
    };
    ({ stop } =
      consent === null
        ? await reconcileBatch(sending, batch, action, options)
        : await sendBatch(sending, batch, action, options, consent));
  } finally {
    watch.close();
    signal.removeEventListener('abort', drain);
  }
  const report = await reportSent(journal, batch, stop);
  watch.ended({ state: report.state, ...report.counts });
  await emit(report);
  signal.throwIfAborted();
  const error = endError(stop, report, batch.batch);
  if (error !== null) throw error;
}
