/** `bulk run --rehearse`: sends a batch to a sandbox that is loaded from the mirror, and keeps nothing of it. */
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Command } from 'commander';
import type { Action } from '../../bulk/action.ts';
import { checkNotRepeated, termsOf } from '../../bulk/claim.ts';
import { usersOfRows } from '../../bulk/find-users.ts';
import { openDirectory } from '../../bulk/open.ts';
import { checkRowCount } from '../../bulk/plan.ts';
import type { ReadRows } from '../../bulk/read-rows.ts';
import { countWords } from '../../bulk/report.ts';
import { rowsInJournal } from '../../bulk/review.ts';
import type { Batch } from '../../journal/port.ts';
import { counted, grouped } from '../../model/text.ts';
import { type ExitCode, IncompleteError, UsageError } from '../../model/errors.ts';
import { silentLog } from '../../model/log.ts';
import { makeNewFolder } from '../../model/files.ts';
import type { ServedRecord } from '../../model/records.ts';
import { Secret } from '../../model/secret.ts';
import { openSandbox, type Sandbox } from '../../sandbox/sandbox.ts';
import { passedToChild, withoutSecrets, withoutServer } from '../../settings/passed.ts';
import type { Settings } from '../../settings/settings.ts';
import { partialName, removeStale } from '../../store/files/durable-file.ts';
import { jobRunner } from '../../worker/run-job.ts';
import { callOf } from '../all.ts';
import { type CliContext, terminalOutput } from '../context.ts';
import { printJson, printLines, printNote, screenOf } from '../output.ts';
import { invalidRows, sendWatched } from './job.ts';
import { isValid, planRows, readFile } from './plan.ts';
import { againOf, type BulkPorts, lookAtJournal, openBulk, type PlanFlags, type SendFlags } from './shared.ts';
import { printRows, problemLines, totalLines } from './words.ts';

/** Nobody else uses the sandbox of a rehearsal, so several requests at once do no harm. */
const rehearsalConcurrency = 8;

/**
 * Rehearses in a process of its own, which knows neither the address nor the key of the server: whatever goes wrong in it, nobody
 * can be paid. The console rehearses in the same way.
 */
export async function rehearse(
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
