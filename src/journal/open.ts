/** Opens the journal that the settings name: in its file, or in the store that several machines share. */
import { existsSync } from 'node:fs';
import { FileError } from '../model/errors.ts';
import type { Actor } from '../model/actor.ts';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { sharedStoreOf } from '../settings/server.ts';
import type { JournalBackend } from './database.ts';
import { openJournalOver } from './journal.ts';
import type { Journal, JournalRules } from './port.ts';
import { stateOfFile, openBackend, openBackendForReading } from './sqlite.ts';

/** Opens the journal for the actor; makes it if there is none. Throws a FileError. */
export async function openJournal(
  settings: Settings,
  actor: Actor,
  clock: Clock,
  releases: Releases,
): Promise<Journal> {
  return releases.add(await openJournalOver(await openBackendOf(settings, clock), actor, rulesOf(settings)));
}

/** Opens the journal for reading; undefined if nothing was ever recorded. Throws a FileError. */
export async function openJournalForReading(
  settings: Settings,
  clock: Clock,
  releases: Releases,
): Promise<Journal | undefined> {
  const backend = await openBackendToLook(settings, clock);
  return backend && releases.add(await openJournalOver(backend, null, rulesOf(settings)));
}

/** The one place that chooses between the file and the shared store. Whatever is opened over the backend closes it. */
export async function openBackendOf(settings: Settings, clock: Clock): Promise<JournalBackend> {
  const store = sharedStoreOf(settings);
  if (store === undefined) return openBackend(settings.store.journal, clock);
  refuseLeftFile(settings);
  const { openSharedBackend } = await import('./postgres.ts');
  return openSharedBackend(store, clock);
}

/** Opens the backend for reading; undefined if nothing was ever recorded. */
export async function openBackendToLook(settings: Settings, clock: Clock): Promise<JournalBackend | undefined> {
  const store = sharedStoreOf(settings);
  const { journal } = settings.store;
  if (store === undefined) return existsSync(journal) ? openBackendForReading(journal, clock) : undefined;
  refuseLeftFile(settings);
  const { openSharedBackendIfMade } = await import('./postgres.ts');
  return openSharedBackendIfMade(store, clock);
}

/** Whether there may be records. Does not look into the shared store. */
export function mayHaveJournal({ store: { journal, shared } }: Settings): boolean {
  return shared !== undefined || existsSync(journal);
}

/** Nobody would look at a journal that was left in a file, and what it has on record would be paid again. */
function refuseLeftFile({ store: { journal } }: Settings): void {
  if (!existsSync(journal)) return;
  const found = stateOfFile(journal);
  if (found === 'empty' || found === 'moved') return;
  if (found === 'moving') {
    throw new FileError(
      `the journal ${journal} is being moved to the shared store, or a command that did that was killed`,
      {
        advice: 'Once no `admin-mirror store copy` is running any more, run it again: it completes what was begun.',
      },
    );
  }
  throw new FileError(`store.shared is set, and the journal ${journal} has records that were never moved there`, {
    advice:
      'Run `admin-mirror store copy --to shared` to move it. If the shared store is the right one, and nothing in the ' +
      'file is needed any more, move the file away.',
  });
}

/** After a journal was moved to a shared store, whatever belongs to it continues there. Throws a FileError. */
export function refuseMovedFile({ store: { journal } }: Settings): void {
  if (!existsSync(journal) || !['moved', 'moving'].includes(stateOfFile(journal))) return;
  throw new FileError(`the journal ${journal} was moved to a shared store, and jobs are on record there`, {
    advice: 'Set store.shared as it was when it was moved there.',
  });
}

function rulesOf({ bulk: { approval, maxRow, maxTotal, maxDay, maxRows } }: Settings): JournalRules {
  return { approval, caps: { maxRow, maxTotal, maxDay, maxRows } };
}
