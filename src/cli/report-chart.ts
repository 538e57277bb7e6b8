/** `export report:NAME --chart FILE`: the picture of a saved report. */
import { resolve } from 'node:path';
import { UsageError } from '../model/errors.ts';
import type { StatementPart } from '../store/reading-types.ts';
import type { CliContext } from './context.ts';
import { printJson, printNote, printWarning } from './output.ts';
import { refuseOwnFiles } from './own-files.ts';
import { isReport, reportRequest, type ReportFlags } from './report-request.ts';

/** Draws the report into the file, which appears whole or not at all. */
export async function drawReport(
  context: CliContext,
  what: string | undefined,
  flags: ReportFlags & { readonly output?: string },
  part: StatementPart,
  file: string,
): Promise<void> {
  if (!isReport(what)) {
    throw new UsageError('--chart is for reports: export report:NAME --chart out.svg', {
      advice: 'Draw anything else with `admin-mirror query "SELECT …" --chart out.svg`.',
    });
  }
  if (!file.toLowerCase().endsWith('.svg')) {
    throw new UsageError(`a picture is written as SVG, and "${file}" does not end in .svg`);
  }
  if (flags.output !== undefined || part.columns !== undefined) {
    throw new UsageError(
      `--chart draws in the place of rows: leave out ${flags.output === undefined ? '--columns' : '-o'}`,
    );
  }
  const [{ openReadingProcess, withReleases }, { writeDurableFile }] = await Promise.all([
    import('../app.ts'),
    import('../store/files/durable-file.ts'),
  ]);
  await withReleases(async (releases) => {
    const reading = await openReadingProcess(releases);
    const settings = context.settings();
    const path = resolve(context.folder, file);
    refuseOwnFiles(path, settings);
    const request = await reportRequest(context, what, flags, part);
    const chunks = reading.chunks(
      settings.store.mirror,
      { kind: 'chart', what: request, to: 'svg' },
      { signal: context.signal, onWarning: (warning) => printWarning(context, warning) },
    );
    const bytes = await writeDurableFile(path, chunks, context.signal);
    if (context.json()) printJson(context, { file: path, format: 'svg', bytes });
    else printNote(context, `drawn to ${file}`);
  });
}
