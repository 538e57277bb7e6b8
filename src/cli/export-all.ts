/** `export --all`: every table of the mirror into one folder. */
import { join } from 'node:path';
import { UsageError } from '../model/errors.ts';
import { systemClock } from '../model/time.ts';
import type { CliContext } from './context.ts';
import { checkAll, type ExportFlags, formOf } from './export-flags.ts';
import { removeOlder, targetOf } from './export-target.ts';
import { printJson, printNote, printWarning } from './output.ts';
import { refuseOwnFiles } from './own-files.ts';

export async function exportAll(context: CliContext, what: string | undefined, flags: ExportFlags): Promise<void> {
  checkAll(what, flags);
  if (flags.output === undefined || flags.output === '-') {
    throw new UsageError('--all writes many files, and no folder was named', { advice: 'Give -o FOLDER.' });
  }
  const form = formOf(flags, undefined);
  const target = targetOf(context, flags.output, flags.keep);
  const [{ openReading, withReleases }, { exportSet, manifestProgram }] = await Promise.all([
    import('../app.ts'),
    import('../export/export-set.ts'),
  ]);
  const manifest = await withReleases(async (releases) => {
    const settings = context.settings();
    const request = {
      folder: target.path,
      form,
      meta: flags.meta === true,
      check: (file: string) => refuseOwnFiles(join(target.path, file), settings),
    };
    return exportSet(await openReading(settings, releases), request, {
      signal: context.signal,
      clock: systemClock,
      onRows: () => {},
      onWarning: (warning) => printWarning(context, warning),
    });
  });
  const rows = manifest.files.reduce((sum, file) => sum + file.rows, 0);
  printNote(
    context,
    `${manifest.files.length} files with ${rows.toLocaleString('en')} rows written to ${target.shown}`,
  );
  await removeOlder(context, target, { foldersOf: manifestProgram });
  if (context.json()) printJson(context, manifest);
}
