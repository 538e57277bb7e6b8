/** Opens what planning and sending need, as the settings say, for the command line and the console. */
import { existsSync } from 'node:fs';
import type { Client } from '../api/operations.ts';
import { openApi } from '../api/open.ts';
import { openJournal } from '../journal/open.ts';
import type { Actor } from '../model/actor.ts';
import type { UsageError } from '../model/errors.ts';
import type { Releases } from '../model/releases.ts';
import type { Settings, Surroundings } from '../settings/settings.ts';
import { otherServer, readMirror, serverIn } from '../store/open.ts';
import type { JournalMemory } from './journal-memory.ts';
import { openJournalMemory } from './open-memory.ts';
import type { PlanPorts } from './plan.ts';
import { UserDirectory } from './find-users.ts';

export interface BulkPorts extends PlanPorts {
  readonly client: Client;
  /** Null without a mirror, and in a rehearsal. */
  readonly memory: JournalMemory | null;
}

/** @param rehearsal the journal is for this run only, and the mirror must not remember it */
export async function openBulkPorts(
  { settings, log, clock, signal }: Surroundings,
  actor: Actor,
  releases: Releases,
  rehearsal = false,
): Promise<BulkPorts> {
  const journal = await openJournal(settings, actor, clock, releases);
  const { maxRow, maxTotal, maxDay, maxRows, currency, againWithinMs } = settings.bulk;
  return {
    journal,
    client: openApi({ settings, log, clock: journal.clock }, releases),
    directory: openDirectory(settings, releases),
    memory: rehearsal ? null : openJournalMemory(settings, releases),
    clock: journal.clock,
    signal,
    concurrency: settings.api.concurrency,
    pageSize: settings.api.pageSize,
    rules: { caps: { maxRow, maxTotal, maxDay, maxRows, currency }, againWithinMs, rivals: settings.rivals },
  };
}

export function openDirectory(settings: Settings, releases: Releases): UserDirectory | null {
  const { mirror } = settings.store;
  // Users of another server would only be in the way: then all are looked up on this one.
  if (!existsSync(mirror) || readOtherServer(settings) !== undefined) return null;
  return releases.add(new UserDirectory(mirror));
}

/** The problem of a mirror that was read from another server than the settings name; undefined if it was not. Throws a FileError. */
export function readOtherServer({ store, api }: Settings): UsageError | undefined {
  return otherServer(store.mirror, readMirror(store.mirror, serverIn), api.baseUrl);
}
