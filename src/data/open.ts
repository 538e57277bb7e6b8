/** Opens the mirror that the settings name, for reading, and the saved reports. */
import { fileURLToPath } from 'node:url';
import type { Releases } from '../model/releases.ts';
import type { Settings } from '../settings/settings.ts';
import { type ReadingStore, openReadingStore, openSharedReading } from './reading.ts';
import { JobProcess } from './job-process.ts';
import { Readers } from './readers.ts';
import { loadReports, type Reports } from './reports/reports.ts';

/** Loads the saved reports: those that come with the program, and the operator's own. Throws a FileError. */
export async function openReports(settings: Settings): Promise<Reports> {
  // Beside src/ in a clone, beside dist/ in the package.
  const shipped = fileURLToPath(new URL('../../reports/', import.meta.url));
  return loadReports({ shipped, own: settings.export.reports });
}

/** Opens the mirror for exports and queries. Throws a FileError if there is none. */
export function openReading(settings: Settings, releases: Releases): ReadingStore {
  return releases.add(openReadingStore(settings.store.mirror));
}

/** Starts a process for long reads. It gets the file with its job, and can be stopped in the middle of a statement. */
export function openReadingProcess(releases: Releases): JobProcess {
  return releases.add(new JobProcess());
}

/** Opens the mirror for the many concurrent readers of a long-running process. The file need not exist yet. */
export function openReaders(settings: Settings, releases: Releases): Readers {
  const file = settings.store.mirror;
  return releases.add(new Readers(file, openSharedReading(file)));
}
