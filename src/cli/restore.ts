/** `restore`: puts a backup, a snapshot or what is published in the place of the mirror and the journal. */
import { basename, relative, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { backupsIn } from '../data/backup.ts';
import { openRestore } from '../data/open-restore.ts';
import { openPublisher } from '../data/open-publish.ts';
import type { RestoreReport, RestoreRequest } from '../data/restore.ts';
import { UsageError } from '../model/errors.ts';
import { bytesText } from '../model/text.ts';
import { systemClock } from '../model/time.ts';
import type { CliContext } from './context.ts';
import { openSurroundings } from './logger.ts';
import { printResult } from './output.ts';
import { openShareWatch } from './progress.ts';

interface Flags {
  readonly published?: true;
  readonly acceptNewServer?: true;
  readonly mirrorOnly?: true;
  readonly olderJournal?: true;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('restore')
    .description(
      'Put a backup, a snapshot or what is published in the place of the mirror and the journal. Each copy is checked first, and ' +
        'the files that were there are kept beside them. A journal that has steps which the copy lacks is not replaced.',
    )
    .argument('[from]', 'the folder of a backup, or a snapshot')
    .addOption(
      new Option('--published', 'make the mirror of what `publish` wrote to PostgreSQL').conflicts('olderJournal'),
    )
    .option('--mirror-only', 'leave the journal as it is')
    .option('--accept-new-server', 'restore the mirror although it was read from another address than api.base_url')
    .addOption(
      new Option(
        '--older-journal',
        'replace the journal although the copy lacks some of its steps, or may lack some',
      ).conflicts('mirrorOnly'),
    )
    .addHelpText(
      'after',
      `
Stop the worker and the console first. Then run \`sync\`, and after a journal was restored \`bulk reconcile --adopt\`.

Examples:
  admin-mirror restore data/backups/20261121T021500Z
  admin-mirror restore copy.db
  admin-mirror restore --published --db restored.db`,
    )
    .action((from: string | undefined, flags: Flags) => run(context, from, flags));
}

async function run(context: CliContext, from: string | undefined, flags: Flags): Promise<void> {
  const settings = context.settings();
  if ((from === undefined) !== (flags.published === true)) throw noSource(settings.backup.folder, from);
  const watch = openShareWatch(context, 'restoring');
  try {
    const request: RestoreRequest = {
      from: from === undefined ? await published(context, watch.progress) : resolve(context.folder, from),
      isMirrorOnly: flags.mirrorOnly ?? false,
      acceptsServer: flags.acceptNewServer ?? false,
      mayLoseSteps: flags.olderJournal ?? false,
    };
    const report = await openRestore(settings, systemClock, context.signal)(request);
    watch.close();
    printResult(context, report, linesOf(context, report));
  } finally {
    watch.close();
  }
}

function noSource(folder: string, from: string | undefined): UsageError {
  const newest = backupsIn(folder).at(-1);
  const known = newest === undefined ? `There is none in ${folder}.` : `The newest one in ${folder} is ${newest}.`;
  return from === undefined
    ? new UsageError('name the backup or snapshot to restore', { advice: known })
    : new UsageError('--published restores what is published, not a file', { advice: 'Leave one of the two out.' });
}

async function published(context: CliContext, progress: (share: number) => void): Promise<RestoreRequest['from']> {
  const publisher = openPublisher(
    openSurroundings(context, () => ({})),
    progress,
  );
  if (publisher.password !== undefined) context.keepSecret(publisher.password.reveal());
  return { publishedAt: await publisher.publishedAt(), make: publisher.restore };
}

function linesOf(context: CliContext, report: RestoreReport): string[] {
  const line = (name: 'mirror' | 'journal') => {
    const restored = report[name];
    if (restored === null) return `${name.padEnd(8)} left as it is`;
    const kept = restored.kept === null ? '' : `; what was there is ${basename(restored.kept)}`;
    return `${name.padEnd(8)} ${relative(context.folder, restored.file)}, ${bytesText(restored.bytes)}, checked${kept}`;
  };
  const made = report.made_at === null ? [] : [`made     ${report.made_at}`];
  const forgotten = report.forgotten_since.map((user) => `admin-mirror forget ${user}`);
  const next = [
    ...forgotten,
    'admin-mirror sync',
    // Where a journal was, and the copy has all its steps, nothing else is missing.
    ...(report.journal === null || (report.journal.kept !== null && !report.journal_lacks_steps)
      ? []
      : ['admin-mirror bulk reconcile --adopt']),
  ];
  const words = [
    ...(report.journal_lacks_steps
      ? [
          'This journal lacks steps. No balance is changed from it until `bulk reconcile --adopt` has recorded what they sent.',
        ]
      : []),
    ...(forgotten.length === 0 ? [] : ['The copy has people who were forgotten since it was made.']),
    'Now run:',
    ...next.map((each) => `  ${each}`),
  ];
  return [line('mirror'), line('journal'), ...made, ...words];
}
