/** Forgetting a person: nothing stays but ids. Section "Forgetting a person" of docs/architecture.md. */
import { UsageError } from '../model/errors.ts';
import { writtenId } from '../model/records.ts';
import { type Clock, timestampOf } from '../model/time.ts';
import type { ForgetJournal } from '../store/mentions.ts';
import type { ForgetStore } from './store/forget-store.ts';
import { syncLock } from './store/run-table.ts';

export interface ForgetPorts {
  readonly store: ForgetStore;
  /** `none` where there is no journal, or nothing in it. */
  readonly journal: ForgetJournal | 'none';
  readonly clock: Clock;
}

/** An id as digits, an email or a user name. Throws a UsageError, without the name, unless it is of one user. */
export function findUser(store: Pick<ForgetStore, 'idsOf' | 'knows'>, named: string): number {
  const name = named.trim();
  if (/^\d+$/.test(name)) {
    const id = writtenId(name);
    if (typeof id === 'bigint') throw tooLargeToForget(id);
    if (id !== undefined && store.knows(id)) return id;
    throw new UsageError(`the mirror has nothing about a user ${name}`, { advice: 'Check the id.' });
  }
  const [id, ...others] = store.idsOf(name);
  if (id === undefined) {
    throw new UsageError('the mirror has no user of that email or user name', {
      advice: 'Check the spelling, or give the id. Who was forgotten is known by the id alone.',
    });
  }
  if (others.length === 0) return id;
  throw new UsageError(`that email or user name is of several users: ${[id, ...others].join(', ')}`, {
    advice: 'Give the id.',
  });
}

function tooLargeToForget(id: bigint): UsageError {
  return new UsageError(`user ${id} has an id above ${Number.MAX_SAFE_INTEGER} (2^53 - 1), which cannot be forgotten`, {
    advice:
      'Delete the user on the server. The next sync removes its row, and `history.keep` bounds how long its versions stay.',
  });
}

/** Removes everything about the user and makes sure that it is gone. Throws LockHeldError while a sync is running. */
export async function forgetUser({ store, journal, clock }: ForgetPorts, user: number) {
  const at = timestampOf(clock.now());
  return withSyncLock(store, `forget-${at}`, async () => {
    const person = store.person(user);
    // The journal first: once the mirror has forgotten who it was, nobody knows what to look for.
    const journaled = journal === 'none' ? {} : await journal.forget(person);
    const { removed, suppressed } = store.forget(person, at);
    const scrubbed = store.scrub();
    // Without a word about the person.
    return {
      action: 'forget',
      user,
      at,
      removed: { ...removed, ...journaled },
      suppressed,
      journal: journal === 'none' ? 'none' : 'searched',
      /** Whether no byte of it is left in the mirror's files. */
      scrubbed,
    } as const;
  });
}

export type ForgetReceipt = Awaited<ReturnType<typeof forgetUser>>;

/** Lets the user come back with the next sync. Throws a UsageError for one who was not forgotten. */
export async function undoForget({ store, clock }: Pick<ForgetPorts, 'store' | 'clock'>, named: string) {
  const user = writtenId(named.trim());
  if (typeof user === 'bigint') throw tooLargeToForget(user);
  if (user === undefined) {
    throw new UsageError('who was forgotten is known by the id alone', { advice: 'Give the id of the user.' });
  }
  const at = timestampOf(clock.now());
  return withSyncLock(store, `forget-${at}`, () => {
    const released = store.undo(user);
    if (Object.keys(released).length === 0) throw new UsageError(`user ${user} is not kept out of the mirror`);
    return { action: 'undo', user, at, released } as const;
  });
}

async function withSyncLock<T>(store: ForgetStore, run: string, work: () => T | Promise<T>): Promise<T> {
  store.acquireLock(syncLock, run, 'forget');
  try {
    return await work();
  } finally {
    store.releaseLock(syncLock, run);
  }
}
