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
import { manifestBeside, manifestHead, writeManifest } from '../store/files/manifest.ts';

export function define(program: Command, context: CliContext): void {
  program
    .command('snapshot')
    .description(
      'Copy the mirror as it is now, even while a sync writes to it. The copy appears complete or not at all, is a mirror ' +
        'file like any other, and replaces only an earlier copy.',
    )
    .argument('<file>', 'the copy')
    .addHelpText(
      'after',
      `
Examples:
  admin-mirror snapshot copy.db
  admin-mirror status --db copy.db`,
    )
    .action((file: string) => run(context, file));
}

async function run(context: CliContext, file: string): Promise<void> {
  const settings = context.settings();
  const path = pathOfFile(context, file);
  refuseOwnFiles(context, path);
  const mirror = mirrorToCopy(settings.store.mirror);
  const watch = openShareWatch(context, 'copying');
  const copyRun = { signal: context.signal, progress: watch.progress };
  const making = makeSnapshot(mirror, path, copyRun);
  const { contents, sha256 } = await making.finally(watch.close);
  const { bytes, ...about } = contents;
  const manifest = {
    ...manifestHead('admin-mirror snapshot', systemClock),
    complete: contents.fresh_as_of !== null,
    ...about,
    journal_head: await journalHead(context),
    files: [{ file: basename(path), bytes, sha256 }],
  };
  await writeManifest(manifestBeside(path), manifest, context.signal);
  const rows = Object.entries(contents.resources).map(([name, each]) => `${grouped(each.rows)} ${name}`);
  printResult(context, { file: path, ...contents }, [
    `${file}: ${bytesText(contents.bytes)}, ${rows.join(', ')}`,
    `fresh as of ${contents.fresh_as_of ?? 'no time: a resource is not complete yet'}`,
  ]);
}
