/** The doctor on the saved reports: headers whole, SQL that can be prepared, parameters and columns as declared. */
import { existsSync } from 'node:fs';
import { openBlank, openReading, openReports, withReleases } from '../../app.ts';
import { FileError, OperatorError } from '../../model/errors.ts';
import type { RelationTable } from '../../model/relations.ts';
import { checkReport } from '../../data/reports/check.ts';
import { switchOn } from '../../data/reports/needs.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Snapshot } from '../../store/reading-types.ts';
import { type Check, failed, ok, warn } from './check.ts';

const name = 'reports';

/** A failed check for each that is broken, and one line on all others. Runs none of them. */
export async function checkReports(settings: Settings): Promise<Check[]> {
  try {
    const { reports, broken, replaced } = await openReports(settings);
    return await withReleases(async (releases) => {
      const blank = await openBlank();
      releases.add({ close: () => blank.release() });
      const mirror = await mirrorOf(settings);
      if (mirror !== undefined) releases.add({ close: () => mirror.release() });
      const found = reports.map((report) => ({ report, ...checkReport(report, mirror, blank) }));
      const wrong = found.filter(({ problems }) => problems.length > 0);
      const idle = found.filter(({ problems, off }) => problems.length === 0 && off.length > 0);
      const spoilt = [...broken, ...wrong.map(({ report, problems }) => ({ ...report, problems }))];
      return [
        ok(name, summary(found.length + broken.length, spoilt.length, idle)),
        ...spoilt.map(({ file, problems }) => failed(name, new FileError(`${file}: ${problems.join('; ')}`))),
        ...replaced.map((each) =>
          warn(name, `${each} is your own, in the place of the one that comes with the program`),
        ),
      ];
    });
  } catch (error) {
    return [failed(name, error)];
  }
}

/** undefined where there is none that can be read; that has a check of its own. */
async function mirrorOf(settings: Settings): Promise<Snapshot | undefined> {
  if (!existsSync(settings.store.mirror)) return undefined;
  try {
    return await withReleases(async (releases) => (await openReading(settings, releases)).snapshot());
  } catch (error) {
    if (error instanceof OperatorError) return undefined;
    throw error;
  }
}

function summary(all: number, spoilt: number, idle: readonly { readonly off: readonly RelationTable[] }[]): string {
  const sound = `${all - spoilt} of ${all} can be run`;
  if (idle.length === 0) return spoilt === 0 ? `${all}, each as its header says` : sound;
  const tables = new Map(idle.flatMap(({ off }) => off.map((each) => [each.table, each])));
  return `${all - spoilt - idle.length} of ${all} can be run; for ${idle.length} more: ${switchOn([...tables.values()])}`;
}
