/** Accounts in a real journal file. */
import { onTestFinished } from 'vitest';
import type { Actor } from '../../src/model/actor.ts';
import type { Clock } from '../../src/model/time.ts';
import { openPeopleIn } from './journal-file.ts';
import type { Cost } from '../../src/people/sign-in.ts';
import type { NewAccount, People } from '../../src/people/people.ts';
import { sandboxNow } from './sandbox.ts';
import { temporaryFolder } from './temporary-folder.ts';

export const operator: Actor = { name: 'root', uid: 0, host: 'office', sudoUser: 'olga', job: null, account: null };

/** So cheap that a test does not wait. */
export const quickCost: Cost = { logN: 4, r: 8, p: 1 };

export async function newPeople(
  clock: Clock = { now: () => sandboxNow },
  file = `${temporaryFolder()}/journal.db`,
): Promise<{ readonly people: People; readonly file: string }> {
  const people = await openPeopleIn(file, operator, clock);
  onTestFinished(() => people.close());
  return { people, file };
}

export function newAccount(name: string, fields: Partial<NewAccount> = {}): NewAccount {
  return { name, roles: ['maker'], osUsers: [], password: null, ...fields };
}
