/** `export --all`: every table of the mirror into one folder. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { counted } from '../model/counted.ts';
import { UsageError } from '../model/errors.ts';
import { systemClock } from '../model/time.ts';
import type { FileForm } from '../data/export.ts';
import { isPacked } from '../data/formats.ts';
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
  const [{ openReading, withReleases }, { exportSet, manifestProgram }, { requireSpace }] = await Promise.all([
    import('../app.ts'),
    import('../data/export-set.ts'),
    import('../store/files/disk-space.ts'),
  ]);
  const manifest = await withReleases(async (releases) => {
    const settings = context.settings();
    const request = {
      folder: target.path,
      form,
      meta: flags.meta === true,
      check: (file: string) => refuseOwnFiles(join(target.path, file), settings),
    };
    const store = await openReading(settings, releases);
    const { size } = statSync(settings.store.mirror);
    requireSpace('export every table', target.path, isSmall(form) ? size / 2 : size);
    return exportSet(store, request, {
      signal: context.signal,
      clock: systemClock,
      onRows: () => {},
      onWarning: (warning) => printWarning(context, warning),
    });
  });
  const rows = manifest.files.reduce((sum, file) => sum + file.rows, 0);
  printNote(
    context,
    `${counted(manifest.files.length, 'file')} with ${counted(rows, 'row')} written to ${target.shown}`,
  );
  await removeOlder(context, target, { foldersOf: manifestProgram });
  if (context.json()) printJson(context, manifest);
}

/** Whether what is written takes less room than the same rows in the mirror. */
function isSmall({ format, compression }: FileForm): boolean {
  return compression !== null || isPacked(format);
}
