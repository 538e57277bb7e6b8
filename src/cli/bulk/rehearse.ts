/** `bulk run … --rehearse`: the batch against a sandbox with the mirror's users, in this process, and nothing kept. */
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { counted } from '../../model/counted.ts';
import type { Action } from '../../bulk/action.ts';
import type { ReadRows } from '../../bulk/read-rows.ts';
import { UsageError } from '../../model/errors.ts';
import { makeNewFolder } from '../../model/folder.ts';
import type { ServedRecord } from '../../model/records.ts';
import { Secret } from '../../model/secret.ts';
import { systemClock } from '../../model/time.ts';
import type { Settings } from '../../settings/settings.ts';
import { partialName, removeStale } from '../../store/files/partial-name.ts';
import type { Batch } from '../../journal/port.ts';
import type { CliContext } from '../context.ts';
import { printJson, printLine, printNote } from '../output.ts';
import { againOf, type PlanFlags, type SendFlags } from './flags.ts';
import { planNamed, readFile } from './plan.ts';
import { printRows } from './review.ts';
import { sendWatched } from './send.ts';
import { type BulkPorts, openBulk } from './world.ts';
import { checkNotRepeated, termsOf } from '../../bulk/claim.ts';
import { usersOfRows } from '../../bulk/find-users.ts';
import { openDirectory } from '../../bulk/open.ts';
import { countWords, reportOf } from '../../bulk/report.ts';
import * as words from './words.ts';
import { openJournalForReading } from '../../journal/open.ts';
import { type Releases, withReleases } from '../../model/releases.ts';
import { openSandbox, type Sandbox } from '../../sandbox/sandbox.ts';

/** The sandbox is ours alone: nothing speaks against asking it for several at once. */
const concurrency = 8;

export async function runRehearsal(
  context: CliContext,
  actionName: string,
  file: string,
  flags: PlanFlags & SendFlags,
): Promise<void> {
  await withReleases(async (releases) => {
    const { action, rows, source } = await readFile(context, actionName, file, flags);
    const { settings, users, freshAsOf } = await stage(context, releases, action, rows);
    const ports = await openBulk({ ...context, settings: () => settings }, releases, true);
    const batch = await planNamed(ports, action, rows, source);
    await checkAgain(context, ports, batch, flags);
    const { journal } = ports;
    const reported = `This was a rehearsal, in a sandbox with ${counted(users, 'user')} of the mirror as of ${freshAsOf ?? 'an unknown time'}. Nothing was sent to the server, and nothing of it is kept.`;
    const planned = await reportOf(journal, batch);
    if (planned.counts.invalid > 0 || planned.problems.length > 0) {
      if (context.json()) printJson(context, { ...planned, rehearsal: true });
      for (const line of words.problemLines(context, planned)) printNote(context, line);
      throw new UsageError(
        `${planned.counts.invalid} of ${counted(planned.rows, 'row')} ${planned.counts.invalid === 1 ? 'is' : 'are'} invalid; none would be sent`,
        {
          advice: `Correct them in the file, and rehearse it again.\n${reported}`,
        },
      );
    }
    const consent = { ...ports.rules, again: againOf(flags), approved: 'for a rehearsal' };
    const there = { ...context, settings: () => settings };
    await sendWatched(there, ports, batch, action, flags, consent, async (report) => {
      if (context.json()) return printJson(context, { ...report, rehearsal: true });
      const { rows: count } = report;
      await printRows(context, journal, batch, true);
      const lines = [
        '',
        ...words.totalLines(context, report),
        `rows      ${count.toLocaleString('en')}: ${countWords(report)}`,
        ...words.problemLines(context, report),
        '',
        reported,
      ];
      for (const line of lines) printLine(context, line);
    });
  });
}

/**
 * A folder for the journal of this rehearsal, beside the mirror: who must not see the one must not see the other. What a
 * rehearsal that was killed has left goes.
 */
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
  releases: Releases,
  action: Action,
  rows: ReadRows,
): Promise<{ readonly settings: Settings; readonly users: number; readonly freshAsOf: string | null }> {
  const settings = context.settings();
  const directory = openDirectory(settings, releases);
  if (directory === null) {
    throw new UsageError('there is no mirror to rehearse with', { advice: 'Run `admin-mirror sync` first.' });
  }
  const folder = await ownFolder(settings.store.mirror);
  releases.add({ close: () => rm(folder, { recursive: true, force: true }) });
  const empty = { users: 0, packages: 0, emails: 0, coupons: 0 };
  const sandbox = releases.add(
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
      bulk: { ...settings.bulk, concurrency, approval: {} },
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
  flags: PlanFlags & SendFlags,
): Promise<void> {
  await withReleases(async (releases) => {
    const real = await openJournalForReading(context.settings(), systemClock, releases);
    const view = await real?.claimView(batch, await journal.claimable(batch.batch), termsOf(rules, clock));
    if (view !== undefined) checkNotRepeated(view, batch, againOf(flags));
  });
}
