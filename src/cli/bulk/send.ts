/** `bulk apply`, `run` and `resume`: asks for consent, sends a batch and reports its outcome; also rehearses all that. */
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Command } from 'commander';
import { realSleep } from '../../api/gate.ts';
import type { Action } from '../../bulk/action.ts';
import { actionOfBatch } from '../../bulk/actions.ts';
import { checkApprovedOrSubmit } from '../../bulk/approval.ts';
import { batchOf, checkFile, checkNotRepeated, checkServer, type Consent, termsOf } from '../../bulk/claim.ts';
import { usersOfRows } from '../../bulk/find-users.ts';
import { openDirectory } from '../../bulk/open.ts';
import { checkRowCount } from '../../bulk/plan.ts';
import type { ReadRows } from '../../bulk/read-rows.ts';
import { type BatchReport, consentQuestion, countWords, reportOf } from '../../bulk/report.ts';
import { rowsInJournal } from '../../bulk/review.ts';
import { checkSendable, sendBatch } from '../../bulk/send-batch.ts';
import { sendMarginOf } from '../../bulk/send-row.ts';
import type { Batch } from '../../journal/port.ts';
import { counted, grouped } from '../../model/text.ts';
import { type ExitCode, IncompleteError, type OperatorError, UsageError } from '../../model/errors.ts';
import { silentLog } from '../../model/log.ts';
import { passedToChild, withoutSecrets, withoutServer } from '../../settings/passed.ts';
import { jobRunner } from '../../worker/run-job.ts';
import { callOf } from '../all.ts';
import { makeNewFolder } from '../../model/files.ts';
import type { ServedRecord } from '../../model/records.ts';
import { Secret } from '../../model/secret.ts';
import { openSandbox, type Sandbox } from '../../sandbox/sandbox.ts';
import type { Settings } from '../../settings/settings.ts';
import { partialName, removeStale } from '../../store/files/durable-file.ts';
import { canAsk, noteProfile, promptForConsent } from '../prompts.ts';
import { type CliContext, terminalOutput } from '../context.ts';
import { printJson, printLines, printNote, printResult, screenOf } from '../output.ts';
import { openBulkWatch } from '../progress.ts';
import { actionArgument, isValid, notePlan, planRows, readFile } from './plan.ts';
import { printRows, problemLines, reportLines, totalLines } from './words.ts';
import {
  addAgainFlags,
  addPlanFlags,
  addSendFlags,
  againOf,
  batchHelp,
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
    .description('Send a planned batch, after you type its net total or give the hash of the plan.')
    .argument('<batch>', batchHelp)
    .option('--approve <hash>', 'the hash of the plan, for scripts: instead of typing the total')
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
  const plan = await planRows(ports, read);
  const { batch, report } = plan;
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

function invalidRows({ counts, rows }: BatchReport, end: string, advice: string): UsageError {
  const are = counts.invalid === 1 ? 'is' : 'are';
  return new UsageError(`${counts.invalid} of ${counted(rows, 'row')} ${are} invalid; ${end}`, { advice });
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
  return { context, ports, batch, action: actionOfBatch(batch), flags };
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
  const question = await consentQuestion(ports.journal, batch, action, ports.client.address);
  await promptForConsent(context, question, false);
  return `by typing ${question.typed}`;
}

/** @param consent null to send nothing and only look for every row */
function sendAndReport(job: Job, consent: Consent | null): Promise<void> {
  const { context, ports, batch } = job;
  const doing = consent === null ? 'looking for every row of' : 'sending';
  noteProfile(context, `${doing} batch ${batch.batch} at ${ports.client.address}`);
  return sendWatched(job, consent, async (report, error) => {
    printResult(context, report, reportLines(context, report));
    if (report.state === 'stopped' && error?.advice?.includes('bulk resume') !== true) {
      printNote(context, `Stopped before the end. To continue: admin-mirror bulk resume ${report.batch}`);
    }
  });
}

/** Sends the batch, showing progress, and emits the report. Then throws the error or interruption that stopped the batch. */
async function sendWatched(
  { context, ports, batch, action, flags }: Job,
  consent: Consent | null,
  emit: (report: BatchReport, error: OperatorError | null) => Promise<void>,
): Promise<void> {
  const { signal } = ports;
  const { bulk, store } = context.settings();
  const options = {
    ...bulk,
    sendMarginMs: sendMarginOf(store.sharedLeaseMs),
    settleAfterMs: flags.settleAfter ?? bulk.settleAfterMs,
    maxErrors: flags.maxErrors,
  };
  const drain = (): void => {
    printNote(context, 'Finishing what is under way. Ctrl+C again stops at once and leaves its outcome unknown.');
  };
  signal.addEventListener('abort', drain, { once: true });
  const watch = openBulkWatch(context, ports.log);
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
  await emit(report, error);
  signal.throwIfAborted();
  if (error !== null) throw error;
}

/** Nobody else uses the sandbox of a rehearsal, so several requests at once do no harm. */
const rehearsalConcurrency = 8;

/**
 * Rehearses in a process of its own, which knows neither the address nor the key of the server: whatever goes wrong in it, nobody
 * can be paid. The console rehearses in the same way.
 */
async function rehearse(
  context: CliContext,
  action: string,
  file: string,
  flags: PlanFlags & SendFlags,
  command: Command,
): Promise<void> {
  if (context.world.given !== undefined) return rehearseHere(context, action, file, flags);
  const given = passedToChild(withoutServer({ reading: context.reading(), servers: [] }));
  const output = terminalOutput(context);
  const { folder, environment, signal } = context;
  const run = jobRunner({ folder, environment: withoutSecrets(environment), log: silentLog });
  const call = callOf(command);
  const { stdout, stderr } = context;
  const print = screenOf(stdout) === process.stdout ? {} : { print: { stdout, stderr } };
  const { exitCode, problem } = await run(
    call,
    { given, actor: context.actor(), output, fields: {}, ...print },
    signal,
  );
  if (exitCode === null) throw new IncompleteError(`the rehearsal did not end: ${problem ?? 'it was killed'}`);
  context.exit(exitCode as ExitCode);
}

/** Sends the batch to a sandbox with the mirror's users, and keeps nothing. */
async function rehearseHere(
  context: CliContext,
  actionName: string,
  file: string,
  flags: PlanFlags & SendFlags,
): Promise<void> {
  const { api, bulk } = context.settings();
  if ((api.baseUrl ?? api.key ?? api.keyFile) !== undefined) throw new Error('a rehearsal must not know the server');
  const read = await readFile(context, actionName, file, flags);
  checkRowCount(read.rows, bulk);
  const { settings, users, freshAsOf } = await openStage(context, read);
  // The journal of a rehearsal has no accounts.
  const actor = { ...context.actor(), account: null };
  const staged = { ...context, settings: () => settings, actor: () => actor };
  const ports = await openBulk(staged, true);
  const { batch, report: planned } = await planRows(ports, read);
  await checkRealJournal(context, ports, batch, flags);
  const end = `This was a rehearsal, in a sandbox with ${counted(users, 'user')} of the mirror as of ${freshAsOf ?? 'an unknown time'}. Nothing was sent to the server, and nothing of it is kept.`;
  if (!isValid(planned)) {
    if (context.json()) printJson(context, { ...planned, rehearsal: true });
    for (const line of problemLines(context, planned)) printNote(context, line);
    throw invalidRows(planned, 'none would be sent', `Correct them in the file, and rehearse it again.\n${end}`);
  }
  const consent = { ...ports.rules, again: againOf(flags), approved: 'for a rehearsal' };
  const job = { context: staged, ports, batch, action: read.action, flags };
  await sendWatched(job, consent, async (report) => {
    if (context.json()) return printJson(context, { ...report, rehearsal: true });
    await printRows(context, rowsInJournal(ports.journal, batch));
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

/** Makes a private folder for the journal of this rehearsal, beside the mirror. Removes what a killed rehearsal left there. */
async function makeStageFolder(mirror: string): Promise<string> {
  const name = join(dirname(mirror), 'rehearsal');
  await removeStale(dirname(mirror), name);
  const folder = join(dirname(mirror), partialName(name));
  makeNewFolder(folder);
  return folder;
}

/** Opens a sandbox with the users of the rows, and returns the settings that lead to it. Nobody else has its key. */
async function openStage(
  context: CliContext,
  { action, rows }: { readonly action: Action; readonly rows: ReadRows },
): Promise<{ readonly settings: Settings; readonly users: number; readonly freshAsOf: string | null }> {
  const settings = context.settings();
  const directory = openDirectory(settings, context.releases);
  if (directory === null) {
    throw new UsageError('there is no mirror to rehearse with', { advice: 'Run `admin-mirror sync` first.' });
  }
  const folder = await makeStageFolder(settings.store.mirror);
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
      rivals: [],
      api: { ...settings.api, baseUrl: sandbox.url, key: new Secret(sandbox.key), requestsPerSecond: undefined },
      // The rehearsal must not use the shared store either.
      store: { ...settings.store, journal: join(folder, 'journal.db'), shared: undefined },
      // Nothing leaves the machine, so no approval is needed.
      bulk: { ...settings.bulk, concurrency: rehearsalConcurrency, approval: {} },
    },
    users: users.length,
    freshAsOf: directory.freshAsOf,
  };
}

function load({ control }: Sandbox, user: ServedRecord): void {
  control.insert('users', Object.fromEntries(Object.entries(user).filter(([, value]) => value !== null)));
  // Without this, the sandbox would make up related records that the mirror does not have.
  for (const kind of ['balance_transactions', 'notifications', 'orders', 'punishments']) {
    control.setRelated('users', Number(user['id']), kind, []);
  }
}

/** Throws if the real journal would refuse the batch, because its rows were sent before. */
async function checkRealJournal(
  context: CliContext,
  { journal, rules, clock }: BulkPorts,
  batch: Batch,
  flags: SendFlags,
): Promise<void> {
  const real = await lookAtJournal(context);
  const view = await real?.claimView(batch, await journal.claimable(batch.batch), termsOf(rules, clock));
  if (view !== undefined) checkNotRepeated(view, batch, againOf(flags));
}
