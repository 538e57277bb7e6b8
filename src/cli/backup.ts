/** `backup`: copies the mirror and the journal to a new timestamped folder, and checks both copies. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { systemClock } from '../model/time.ts';
import { UsageError } from '../model/errors.ts';
import { addAllFlags, type AllFlags, runForAll } from './all.ts';
import type { CliContext } from './context.ts';
import { toCount } from './flag-values.ts';
import { freshnessFacts, journalHead } from './manifest-facts.ts';
import { printNote, printResult } from './output.ts';
import { openShareWatch } from './progress.ts';
import { type BackupReport, makeBackup } from '../data/backup.ts';
import { journalToCopy, mirrorToCopy } from '../data/copy-source.ts';
import { openJournalDoubt } from '../bulk/open-memory.ts';
import { rightJournalAdvice } from '../bulk/journal-memory.ts';
import { bytesText } from '../model/text.ts';
import { databaseText } from '../model/address.ts';

interface Flags extends AllFlags {
  readonly keep?: number;
}

export function define(program: Command, context: CliContext): void {
  const command = program
    .command('backup')
    .description(
      'Copy the mirror and the journal to a new timestamped folder, even while they are being written to, and check ' +
        'both copies completely. `restore` puts them back.',
    )
    .argument('[folder]', 'where backups are kept (default: data/backups, and in it a folder for each profile)')
    .option(
      '--keep <n>',
      'keep the newest <n> backups of this mirror and journal; remove older ones once this one is safe',
      toCount,
    )
    .addHelpText(
      'after',
      `
Examples:
  admin-mirror backup
  admin-mirror backup /mnt/backups/admin-mirror --keep 14`,
    );
  addAllFlags(command).action((folder: string | undefined, flags: Flags) => {
    if (!flags.all) return run(context, folder, flags);
    if (folder === undefined) return runForAll(context, command, { one: (report) => (report as BackupReport).folder });
    throw new UsageError('a backup folder is for one server, but --all is for all of them', {
      advice: 'Leave it out: data/backups has a folder in it for each profile.',
    });
  });
}

async function run(context: CliContext, named: string | undefined, flags: Flags): Promise<void> {
  const settings = context.settings();
  const folder = named === undefined ? settings.backup.folder : resolve(context.folder, named);
  const watch = openShareWatch(context, 'backing up');
  const mirror = mirrorToCopy(settings.store.mirror);
  const file = journalToCopy(settings.store.journal);
  const { shared } = settings.store;
  // A journal in a shared store is not a file, so there is nothing to copy.
  const journal = shared === undefined ? file : { ...file, size: () => undefined };
  const run = { signal: context.signal, progress: watch.progress };
  const ports = { mirror, journal, clock: systemClock, run };
  const { profile = null } = settings;
  const isShared = shared !== undefined;
  const problem = isShared ? null : await openJournalDoubt(settings, systemClock);
  const doubt = problem === null ? null : { problem, advice: rightJournalAdvice };
  const about = { ...freshnessFacts(context), journal_head: await journalHead(context) };
  const request = { folder, profile, keep: flags.keep, isShared, doubt, about };
  const { report, error } = await makeBackup(ports, request).finally(watch.close);
  if (shared !== undefined) {
    const where = databaseText(shared);
    printNote(context, `the journal is in ${where} and not in this backup: back that database up (pg_dump)`);
  }
  printResult(context, report, linesOf(report, error === null && shared === undefined));
  if (error !== null) throw error;
}

/** @param isAll whether a file that is missing in the backup does not exist at all */
function linesOf({ folder, mirror, journal, removed, not_ours: others }: BackupReport, isAll: boolean): string[] {
  const none = isAll ? 'there is none yet' : 'not backed up';
  const line = (name: string, file: BackupReport['mirror']): string =>
    `${name.padEnd(8)} ${file === null ? none : `${bytesText(file.bytes)}, checked`}`;
  const gone = removed.length === 0 ? [] : [`removed  ${removed.join(', ')}`];
  const left = others.length === 0 ? [] : [`left     ${others.join(', ')}: not of this mirror and journal`];
  return [folder, line('mirror', mirror), line('journal', journal), ...gone, ...left];
}
