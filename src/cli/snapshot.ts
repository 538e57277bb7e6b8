/** `snapshot`: makes a consistent copy of the mirror, even while a sync writes to it. */
import { basename } from 'node:path';
import type { Command } from 'commander';
import { grouped, bytesText } from '../model/text.ts';
import { journalHead } from './manifest-facts.ts';
import type { CliContext } from './context.ts';
import { printResult } from './output.ts';
import { pathOfFile, refuseOwnFiles } from './files.ts';
import { openShareWatch } from './progress.ts';
import { makeSnapshot, mirrorToCopy } from '../data/copy-source.ts';
import { systemClock } from '../model/time.ts';
import { hashOfFile, manifestBeside, manifestHead, writeManifest } from '../store/files/manifest.ts';

interface Flags {
  readonly anonymise?: true;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('snapshot')
    .description(
      'Copy the mirror as it is now, even while a sync writes to it. The copy appears complete or not at all, is a mirror ' +
        'file like any other, and replaces only an earlier copy.',
    )
    .argument('<file>', 'the copy')
    .option(
      '--anonymise',
      'keep only ids, amounts, dates, states and what is sold, and set everything else to null, to share the copy',
    )
    .addHelpText(
      'after',
      `
An anonymised copy has no names, addresses, messages or fields that the API's reference does not name. The ids stay, so
tables can still be joined.

Examples:
  admin-mirror snapshot copy.db
  admin-mirror snapshot for-the-agency.db --anonymise
  admin-mirror status --db copy.db`,
    )
    .action((file: string, flags: Flags) => run(context, file, flags));
}

async function run(context: CliContext, file: string, flags: Flags): Promise<void> {
  const settings = context.settings();
  const path = pathOfFile(context, file);
  refuseOwnFiles(context, path);
  const anonymised = flags.anonymise === true;
  const mirror = mirrorToCopy(settings.store.mirror, systemClock);
  const watch = openShareWatch(context, 'copying');
  const copyRun = { signal: context.signal, progress: watch.progress };
  const making = makeSnapshot(mirror, path, anonymised, copyRun);
  const contents = await making.finally(watch.close);
  const { bytes, ...about } = contents;
  const manifest = {
    ...manifestHead('admin-mirror snapshot', systemClock),
    anonymised,
    complete: contents.fresh_as_of !== null,
    ...about,
    journal_head: await journalHead(context),
    files: [{ file: basename(path), bytes, sha256: await hashOfFile(path) }],
  };
  await writeManifest(manifestBeside(path), manifest, context.signal);
  const rows = Object.entries(contents.resources).map(([name, each]) => `${grouped(each.rows)} ${name}`);
  printResult(context, { file: path, anonymised, ...contents }, [
    `${file}: ${bytesText(contents.bytes)}, ${rows.join(', ')}${anonymised ? ', anonymised' : ''}`,
    `fresh as of ${contents.fresh_as_of ?? 'no time: a resource is not complete yet'}`,
  ]);
}
