/** `bulk apply`, `run` and `resume`: a batch is approved, sent, and what became of it is said; and a rehearsal of all that. */
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Command } from 'commander';
import { realSleep } from '../../api/rate.ts';
import type { Action } from '../../bulk/action.ts';
import { actionOfBatch } from '../../bulk/actions.ts';
import { checkApprovedOrSubmit } from '../../bulk/approval.ts';
import { batchOf, checkNotRepeated, checkServer, type Consent, termsOf } from '../../bulk/claim.ts';
import { usersOfRows } from '../../bulk/find-users.ts';
import { openDirectory } from '../../bulk/open.ts';
import { checkRowCount } from '../../bulk/plan.ts';
import type { ReadRows } from '../../bulk/read-rows.ts';
import { type BatchReport, consentQuestion, countWords, reportOf } from '../../bulk/report.ts';
import { checkSendable, sendBatch } from '../../bulk/send-batch.ts';
import { sendMarginOf } from '../../bulk/send-row.ts';
import type { Batch } from '../../journal/port.ts';
import { counted, grouped } from '../../model/text.ts';
import { UsageError } from '../../model/errors.ts';
import { makeNewFolder } from '../../model/files.ts';
import type { ServedRecord } from '../../model/records.ts';
import { Secret } from '../../model/secret.ts';
import { openSandbox, type Sandbox } from '../../sandbox/sandbox.ts';
import type { Settings } from '../../settings/settings.ts';
import { partialName, removeStale } from '../../store/files/durable-file.ts';
import { canAsk, noteProfile, promptForConsent } from '../prompts.ts';
import type { CliContext } from '../context.ts';
import { printJson, printLines, printNote, printResult } from '../output.ts';
import { openBulkWatch } from '../progress.ts';
import { actionArgument, isValid, notePlan, planNamed, readFile } from './plan.ts';
import { printRows, problemLines, reportLines, totalLines } from './words.ts';
import {
  acceptedOf,
  addAgainFlags,
  addPlanFlags,
  addSendFlags,
  againOf,
  type BulkPorts,
  lookAtJournal,
  openBulk,
  type PlanFlags,
  type SendFlags,
} from './shared.ts';

interface Job {
  readonly context: CliContext;
  readonly ports: BulkPorts;
  readonly batch: Batch;
  readonly action: Action;
  readonly flags: SendFlags;
}

export function defineSending(bulk: Command, context: CliContext): void {
  const applying = bulk
    .command('apply')
    .description('Send a planned batch, after the net total was typed or the hash of the plan was given.')
    .argument('<batch>', 'as `bulk plan` names it')
    .option('--approve <hash>', 'the hash of the plan, for a script that cannot be asked')
    .action(async (batch: string, flags: SendFlags) => apply(await openJob(context, batch, flags)));
  addAgainFlags(addSendFlags(applying));

  const run = bulk
    .command('run')
    .description('Plan, then send if every row is valid.')
    .addArgument(actionArgument())
    .argument('<file>', 'a .csv, .tsv, .xlsx or .jsonl file')
    .option('--yes', 'do not ask before it is sent')
    .option('--rehearse', 'send it to a sandbox that is loaded from the mirror; the server gets no request')
    .action((action: string, file: string, flags: PlanFlags & SendFlags) =>
      flags.rehearse === true ? rehearse(context, action, file, flags) : runRun(context, action, file, flags),
    );
  addAgainFlags(addSendFlags(addPlanFlags(run)));

  const resume = bulk
    .command('resume')
    .description('Continue a batch that was stopped: settle what was under way, then send the rest.')
    .argument('<batch>', 'as `bulk plan` names it')
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
  const batch = await planNamed(ports, read);
  const report = await notePlan(context, ports, batch);
  if (!isValid(report)) {
    if (context.json()) printJson(context, report);
    throw invalid(report, 'nothing was sent', 'Correct them in the file, and run it again.');
  }
  try {
    await checkApprovedOrSubmit(ports.journal, batch, againOf(flags));
  } catch (error) {
    if (context.json()) printJson(context, await reportOf(ports.journal, batch));
    throw error;
  }
  await apply({ context, ports, batch, action: read.action, flags });
}

function invalid({ counts, rows }: BatchReport, end: string, advice: string): UsageError {
  const are = counts.invalid === 1 ? 'is' : 'are';
  return new UsageError(`${counts.invalid} of ${counted(rows, 'row')} ${are} invalid; ${end}`, { advice });
}

async function runResume(context: CliContext, name: string, flags: SendFlags): Promise<void> {
  const job = await openJob(context, name, flags);
  const { ports, batch } = job;
  if (batch.state === 'planned') {
    throw new UsageError(`batch ${name} was never approved`, { advice: `Run \`admin-mirror bulk apply ${name}\`.` });
  }
  await checkServer(batch, ports.client, context.signal);
  await sendAndReport(job, { ...ports.rules, again: againOf(flags), approved: null });
}

/** Looks for every row of the batch on the server, and records what is found. */
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

/** Opens what the batch of that name is sent with. Throws a UsageError where there is none. */
async function openJob(context: CliContext, name: string, flags: SendFlags): Promise<Job> {
  const ports = await openBulk(context);
  const batch = await batchOf(ports.journal, name);
  ports.about(batch.batch);
  return { context, ports, batch, action: actionOfBatch(batch), flags };
}

async function apply(job: Job): Promise<void> {
  const { context, ports, batch, flags } = job;
  const again = againOf(flags);
  const file = batch.file === null ? null : resolve(context.folder, batch.file);
  await checkSendable(ports, batch, { file, again, acceptJournal: acceptedOf(flags) });
  await sendAndReport(job, { ...ports.rules, again, approved: await approve(job) });
}

/** Throws a UsageError where nobody approves. Gives how it was approved. */
async function approve({ context, ports, batch, action, flags }: Job): Promise<string> {
  const { approve: hash, yes } = flags;
  if (hash !== undefined) {
    if (hash === batch.hash) return 'by the hash of the plan';
    throw new UsageError('--approve is not the hash of this plan; nothing was sent', {
      advice: `\`admin-mirror bulk status ${batch.batch} --json\` has it. Look at the plan before you approve it.`,
    });
  }
  if (yes === true) return 'beforehand';
  if (!canAsk(context)) {
    throw new UsageError(`batch ${batch.batch} must be approved, and nobody can be asked here; nothing was sent`, {
      advice: `Look at the plan, then run \`admin-mirror bulk apply ${batch.batch} --approve ${batch.hash}\`.`,
    });
  }
  const question = await consentQuestion(ports.journal, batch, action, ports.client.address);
  await promptForConsent(context, question, false);
  return `by typing ${question.typed}`;
}

/** @param consent null where nothing is to be sent, and every row is only looked for */
function sendAndReport(job: Job, consent: Consent | null): Promise<void> {
  const { context, ports, batch } = job;
  const doing = consent === null ? 'looking for every row of' : 'sending';
  noteProfile(context, `${doing} batch ${batch.batch} at ${ports.client.address}`);
  return sendWatched(job, consent, async (report) => {
    printResult(context, report, reportLines(context, report));
    if (context.signal.aborted && report.state === 'stopped') {
      printNote(context, `Stopped before its end. To go on: admin-mirror bulk resume ${report.batch}`);
    }
  });
}

/** Sends while somebody watches, and ends as the batch did, after what became of it was said. */
async function sendWatched(
  { context, ports, batch, action, flags }: Job,
  consent: Consent | null,
  emit: (report: BatchReport) => Promise<void>,
): Promise<void> {
  const { signal } = ports;
  const { bulk, store } = context.settings();
  const options = {
    ...bulk,
    sendMarginMs: sendMarginOf(store.sharedLeaseMs),
    settleAfterMs: flags.settleAfter ?? bulk.settleAfterMs,
    maxErrors: flags.maxErrors,
    acceptJournal: acceptedOf(flags),
  };
  const drain = (): void => {
    printNote(context, 'Finishing what is under way. Ctrl+C again stops at once and leaves it unknown.');
  };
  signal.addEventListener('abort', drain, { once: true });
  const watch = openBulkWatch(context, ports.log, ports.clock);
  context.sends();
  let sent;
  try {
    const sending = { ...ports, sleep: context.sleep ?? realSleep, progress: watch.progress };
    sent = await sendBatch(sending, batch, action, options, consent);
  } finally {
    watch.close();
    signal.removeEventListener('abort', drain);
  }
  const { report, error } = sent;
  watch.ended({ state: report.state, ...report.counts });
  await emit(report);
  signal.throwIfAborted();
  if (error !== null) throw error;
}

/** The sandbox of a rehearsal is ours alone: nothing speaks against asking it for several at once. */
const rehearsalConcurrency = 8;

/** The batch against a sandbox with the mirror's users, in this process, and nothing kept. */
async function rehearse(
  context: CliContext,
  actionName: string,
  file: string,
  flags: PlanFlags & SendFlags,
): Promise<void> {
  const read = await readFile(context, actionName, file, flags);
  checkRowCount(read.rows, context.settings().bulk);
  const { settings, users, freshAsOf } = await stage(context, read);
  const there = { ...context, settings: () => settings };
  const ports = await openBulk(there, true);
  const batch = await planNamed(ports, read);
  await checkAgain(context, ports, batch, flags);
  const end = `This was a rehearsal, in a sandbox with ${counted(users, 'user')} of the mirror as of ${freshAsOf ?? 'an unknown time'}. Nothing was sent to the server, and nothing of it is kept.`;
  const planned = await reportOf(ports.journal, batch);
  if (!isValid(planned)) {
    if (context.json()) printJson(context, { ...planned, rehearsal: true });
    for (const line of problemLines(context, planned)) printNote(context, line);
    throw invalid(planned, 'none would be sent', `Correct them in the file, and rehearse it again.\n${end}`);
  }
  const consent = { ...ports.rules, again: againOf(flags), approved: 'for a rehearsal' };
  const job = { context: there, ports, batch, action: read.action, flags };
  await sendWatched(job, consent, async (report) => {
    if (context.json()) return printJson(context, { ...report, rehearsal: true });
    await printRows(context, ports.journal, batch);
    printLines(context, [
      '',
      ...totalLines(context, report),
      `rows      ${grouped(report.rows)}: ${countWords(report)}`,
      ...problemLines(context, report),
      '',
      end,
    ]);
  });
}

/** A folder for the journal of this rehearsal, beside the mirror and as private. What a killed one has left goes. */
async function ownFolder(mirror: string): Promise<string> {
  const name = join(dirname(mirror), 'rehearsal');
  await removeStale(dirname(mirror), name);
  const folder = join(dirname(mirror), partialName(name));
  makeNewFolder(folder);
  return folder;
}

/** A sandbox with those users, that nobody else has the key of, and the settings that lead to it. */
async function stage(
  context: CliContext,
  { action, rows }: { readonly action: Action; readonly rows: ReadRows },
): Promise<{ readonly settings: Settings; readonly users: number; readonly freshAsOf: string | null }> {
  const settings = context.settings();
  const directory = openDirectory(settings, context.releases);
  if (directory === null) {
    throw new UsageError('there is no mirror to rehearse with', { advice: 'Run `admin-mirror sync` first.' });
  }
  const folder = await ownFolder(settings.store.mirror);
  context.releases.add({ close: () => rm(folder, { recursive: true, force: true }) });
  const empty = { users: 0, packages: 0, emails: 0, coupons: 0 };
  const sandbox = context.releases.add(
    await openSandbox({ ...empty, key: randomBytes(16).toString('hex'), signal: context.signal }),
  );
  const users = usersOfRows(directory, action, rows);
  for (const user of users) load(sandbox, user);
  return {
    settings: {
      ...settings,
      api: { ...settings.api, baseUrl: sandbox.url, key: new Secret(sandbox.key), requestsPerSecond: undefined },
      // Not the shared store either.
      store: { ...settings.store, journal: join(folder, 'journal.db'), shared: undefined },
      // Nothing leaves the machine.
      bulk: { ...settings.bulk, concurrency: rehearsalConcurrency, approval: {} },
    },
    users: users.length,
    freshAsOf: directory.freshAsOf,
  };
}

function load({ control }: Sandbox, user: ServedRecord): void {
  control.insert('users', Object.fromEntries(Object.entries(user).filter(([, value]) => value !== null)));
  // What the mirror does not hold is not made up either.
  for (const kind of ['balance_transactions', 'notifications', 'orders', 'punishments']) {
    control.setRelated('users', Number(user['id']), kind, []);
  }
}

/** What the journal says of the same rows would stop the batch itself, too. */
async function checkAgain(
  context: CliContext,
  { journal, rules, clock }: BulkPorts,
  batch: Batch,
  flags: SendFlags,
): Promise<void> {
  const real = await lookAtJournal(context);
  const view = await real?.claimView(batch, await journal.claimable(batch.batch), termsOf(rules, clock));
  if (view !== undefined) checkNotRepeated(view, batch, againOf(flags));
}
