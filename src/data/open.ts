/** The mirror that the settings name, to be read, and the saved reports. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Database } from 'better-sqlite3';
import type { Releases } from '../model/releases.ts';
import type { Settings } from '../settings/settings.ts';
import { certifiedIn } from '../store/certified.ts';
import { openMirrorForReading, readMirror } from '../store/open.ts';
import { type ReadingStore, type SharedReading, openReadingStore, openSharedReading } from '../store/reading.ts';
import { Readers, ReadingProcess } from './reading-process.ts';
import { loadReports, type Reports } from './reports/reports.ts';

/** The saved reports: those that come with the program, and the operator's own. Throws a FileError. */
export async function openReports(settings: Settings): Promise<Reports> {
  // Beside src/ in a clone, beside dist/ in the package.
  const shipped = fileURLToPath(new URL('../../reports/', import.meta.url));
  return loadReports({ shipped, own: settings.export.reports });
}

/** The mirror, for exports and queries. Throws a FileError where there is none to read. */
export function openReading(settings: Settings, releases: Releases): ReadingStore {
  return releases.add(openReadingStore(settings.store.mirror));
}

/** The certificate of just the state in which the mirror is; null where none was written of it. */
export function openCertified({ store: { mirror } }: Settings): ReturnType<typeof certifiedIn> {
  return readMirror(mirror, certifiedIn);
}

/** The mirror, or a copy of it, to be checked by a certificate; undefined where there is none. */
export function openMirrorToCheck({ store: { mirror } }: Settings, releases: Releases): Database | undefined {
  if (!existsSync(mirror)) return undefined;
  const database = openMirrorForReading(mirror);
  releases.add({ close: () => void database.close() });
  return database;
}

/** The mirror, for looking at it again and again: one connection, which holds no state between two looks. */
export function openLooking(settings: Settings, releases: Releases): SharedReading {
  return releases.add(openSharedReading(settings.store.mirror));
}

/** A process that reads the file that it is given, for what takes long: it can be stopped within a statement. */
export function openReadingProcess(releases: Releases): ReadingProcess {
  return releases.add(new ReadingProcess());
}

/** The mirror, for many who read at once in a process that lives on; there need be none yet. */
export function openReaders(settings: Settings, releases: Releases): Readers {
  const file = settings.store.mirror;
  return releases.add(new Readers(file, openSharedReading(file)));
}
