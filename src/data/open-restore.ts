/** Opens restoring with the settings. Apart from open.ts, because this loads the journal. */
import { openJournalForReading } from '../journal/open.ts';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { type RestoreReport, type RestoreRequest, restoreFiles } from './restore.ts';

/** Opens the restoring of the files that the settings name. */
export function openRestore(
  settings: Settings,
  clock: Clock,
  signal: AbortSignal,
): (request: RestoreRequest) => Promise<RestoreReport> {
  const { mirror, journal, shared } = settings.store;
  const openJournal = (file: string, releases: Releases) =>
    openJournalForReading(
      { ...settings, store: { ...settings.store, shared: undefined, journal: file } },
      clock,
      releases,
    );
  const ports = { mirror, journal, openJournal, address: settings.api.baseUrl, clock, signal };
  const { profile = null, backup } = settings;
  return (request) =>
    restoreFiles({ ...ports, profile, backups: backup.folder, isShared: shared !== undefined }, request);
}
