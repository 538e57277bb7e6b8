/** A journal, accounts and a worker's store in a real PostgreSQL. */
import { afterAll, onTestFinished } from 'vitest';
import { noRules } from '../../src/journal/approval.ts';
import { openJournalOver } from '../../src/journal/journal.ts';
import { openSharedBackend } from '../../src/journal/postgres.ts';
import type { Journal, JournalRules } from '../../src/journal/port.ts';
import { parseDatabaseAddress, type SharedStore } from '../../src/model/address.ts';
import { Secret } from '../../src/model/secret.ts';
import type { Clock } from '../../src/model/time.ts';
import { openPeopleOver, type People } from '../../src/people/people.ts';
import { anna } from './journal.ts';
import { operator } from './people.ts';
import { temporaryDatabaseNow, type TestDatabase } from './postgres.ts';
import { sandboxNow } from './sandbox.ts';

const still: Clock = { now: () => sandboxNow };

export function storeOf({ url, password }: Pick<TestDatabase, 'url' | 'password'>, schema: string): SharedStore {
  const address = parseDatabaseAddress(url);
  if (address === undefined) throw new Error(`${url} is not an address`);
  return { address, password: new Secret(password), ca: undefined, schema };
}

let schemas = 0;

/**
 * Call it once in a test file; the returned function makes a new empty store. All stores of a file are in one database,
 * dropped at the end of the file: a schema is made ten times faster.
 */
export function sharedStores() {
  let made: Promise<TestDatabase> | undefined;
  afterAll(async () => (await made)?.drop());
  return async () => {
    const database = await (made ??= temporaryDatabaseNow());
    schemas += 1;
    const store = storeOf(database, `mirror of "${schemas}"`);
    const schema = `"mirror of ""${schemas}"""`;
    return {
      store,
      database,
      /** The schema's name, quoted for a statement. */
      schema,
      /** Changes the database without the program. */
      tamper: async (statement: string): Promise<void> => {
        await database.query(`set search_path = ${schema}; set session_replication_role = replica; ${statement};
          set session_replication_role = origin`);
      },
    };
  };
}

export async function sharedJournal(
  store: SharedStore,
  clock = still,
  rules: JournalRules = noRules,
): Promise<Journal> {
  const journal = await openJournalOver(await openSharedBackend(store, clock), anna, rules);
  onTestFinished(() => journal.close());
  return journal;
}

export async function sharedPeople(store: SharedStore, clock = still): Promise<People> {
  const people = await openPeopleOver(await openSharedBackend(store, clock), operator);
  onTestFinished(() => people.close());
  return people;
}
