/**
 * Accounts, in statements that SQLite and PostgreSQL both understand. They are in the journal's database because they are
 * checked in its transactions. Every change is one durable step, appended to the chain in the same transaction. Section
 * "People" of docs/architecture.md.
 */
import {
  accountAltered,
  accountRecords,
  appendSteps,
  canonical,
  type Json,
  newSalt,
  sealOf,
} from '../journal/chain.ts';
import { type JournalBackend, openDatabase, type OpenJournal, transactionRunner } from '../journal/database.ts';
import { accountOf, type Connection, type JournalTables } from '../journal/tables.ts';
import { type Account, type AccountState, type Actor, hasRole, type Role, roles as allRoles } from '../model/actor.ts';
import { UsageError } from '../model/errors.ts';
import { dayMs, later, minuteMs, secondMs, type Timestamp, timestampOf } from '../model/time.ts';
import { sessionsOf } from './sign-in.ts';
import { nameTaken, refuseUnbound, unknownAccount } from './rules.ts';

/** The name is from `accountName`. */
export interface NewAccount extends Pick<Account, 'name' | 'roles' | 'osUsers'> {
  /** From `hashPassword`; null if the account has no password yet. */
  readonly password: string | null;
}

/** Adding a role that the account has, or removing one that it lacks, changes nothing. */
interface RoleChange {
  readonly add: readonly Role[];
  readonly remove: readonly Role[];
}

export interface ListedAccount extends Account {
  /** Until when wrong passwords keep the account from signing in; null if they do not. */
  readonly blockedUntil: Timestamp | null;
}

type AccountRow = JournalTables['people_accounts'];
type Data = Readonly<Record<string, Json>>;

/** This many wrong passwords need no wait. Each further one doubles the wait, up to the longest. */
const freeTries = 5;
const firstWaitMs = 30 * secondMs;
const longestWaitMs = 15 * minuteMs;

/** Tries of unknown names are counted under this name, so that they take as long as others. */
const unknownName = '';

export type OpenPeople = Pick<OpenJournal, 'backend' | 'db' | 'id'>;

/**
 * Opens the accounts in the backend's database. Closing them closes the backend.
 * @param actor who makes the changes; null to only look at them
 */
export async function openPeopleOver(backend: JournalBackend, actor: Actor | null): Promise<People> {
  return peopleOf({ backend, ...(await openDatabase(backend)) }, actor);
}

export interface People extends ReturnType<typeof peopleOf> {}

function peopleOf(open: OpenPeople, actor: Actor | null) {
  const { backend, db } = open;
  const { clock } = backend;
  const inTransaction = transactionRunner(open);
  const now = () => timestampOf(clock.now());
  const acting = (): Actor => {
    if (actor === null) throw new Error('accounts that were opened to be looked at are not changed');
    return actor;
  };

  /** Changes an existing account. If `fieldsOf` returns undefined, there is nothing to change and no step. */
  function change(
    name: string,
    kind: string,
    fieldsOf: (account: Account) => Partial<AccountRow> | undefined,
    data: Data = {},
  ): Promise<Account> {
    return inTransaction(async (connection) => {
      const records = await accountRecords(connection);
      const accounts = records.map(({ account }) => account);
      const found = records.find(({ account }) => account.name === name);
      if (found === undefined) throw unknownAccount(name, accounts);
      const { row, account: before } = found;
      if (before.state === 'altered') throw accountAltered(name);
      const fields = fieldsOf(before);
      if (fields === undefined) return before;
      const changed = { ...row, ...fields };
      if (hasRole(before, 'admin') && !hasRole(accountOf(changed), 'admin')) refuseLastAdmin(name, accounts);
      refuseUnbound(accountOf(changed));
      // A person who was locked out can sign in with the new password.
      if (fields.password !== undefined) await forgetTries(connection, name);
      // Whoever is signed in may be the reason for the change. They sign in again, if they still can.
      await connection.deleteFrom('people_sessions').where('account', '=', name).execute();
      // A new salt each time, so that two seals do not tell whether the account is the same as before.
      const stored = { ...changed, changedAt: now(), changedBy: canonical({ ...acting() }), salt: newSalt() };
      await connection.updateTable('people_accounts').set(stored).where('name', '=', name).execute();
      await addStep(connection, stored, kind, data, acting());
      return accountOf(stored);
    });
  }

  return {
    /** Returns the same accounts, to be changed by another actor. */
    by: (other: Actor): People => peopleOf(open, other),
    sessions: sessionsOf(open),
    /** Sorted by name. */
    accounts: async () => {
      const records = await accountRecords(db);
      const tries = await db.selectFrom('people_tries').selectAll().execute();
      const blocked = new Map(tries.map((each) => [each.name, blockedUntil(each, clock.now())]));
      return records.map(({ account }): ListedAccount => ({
        ...account,
        blockedUntil: blocked.get(account.name) ?? null,
      }));
    },
    account: async (name: string) => (await accountRecords(db, name))[0]?.account,

    /**
     * This and the other changes throw a UsageError if they are not allowed: the name is taken or unknown, the last admin would
     * go, or nobody has said which system accounts an approver uses.
     */
    add: ({ name, roles, osUsers, password }: NewAccount) =>
      inTransaction(async (connection) => {
        const [there] = await accountRecords(connection, name);
        if (there !== undefined) throw nameTaken(there.account);
        const at = now();
        const by = canonical({ ...acting() });
        const row: AccountRow = {
          name,
          roles: rolesText(roles),
          state: 'active',
          osUsers: osUsersText(osUsers),
          password,
          passwordAt: password === null ? null : at,
          createdAt: at,
          createdBy: by,
          changedAt: at,
          changedBy: by,
          salt: newSalt(),
        };
        refuseUnbound(accountOf(row));
        await connection.insertInto('people_accounts').values(row).execute();
        const data = { roles: [...roles], os_users: osUsers === null ? null : [...osUsers] };
        await addStep(connection, row, 'account-added', data, acting());
        return accountOf(row);
      }),
    setState: (name: string, state: AccountState) =>
      change(name, state === 'active' ? 'account-enabled' : 'account-disabled', (account) =>
        account.state === state ? undefined : { state },
      ),
    changeRoles: (name: string, difference: RoleChange) =>
      change(
        name,
        'account-roles',
        ({ roles }) => {
          const text = rolesText(rolesAfter(roles, difference));
          return text === rolesText(roles) ? undefined : { roles: text };
        },
        { add: [...difference.add], remove: [...difference.remove] },
      ),
    /** All system accounts that the person uses; empty if the person uses none. */
    setOsUsers: (name: string, users: readonly string[]) =>
      change(
        name,
        'account-os-users',
        ({ osUsers }) => {
          const text = osUsersText(users);
          return text === osUsersText(osUsers) ? undefined : { osUsers: text };
        },
        { os_users: [...users] },
      ),
    /** Also forgets failed tries. */
    setPassword: (name: string, password: string) =>
      change(name, 'account-password', () => ({ password, passwordAt: now() })),

    /**
     * Counts a try to sign in before the password is checked, so that parallel tries are all counted. `password` is the stored
     * hash, null if there is none. If `open` is false, the try fails whatever the password.
     */
    beginSignIn: (name: string) =>
      inTransaction(async (connection) => {
        const [found] = name === unknownName ? [] : await accountRecords(connection, name);
        const waits = await countTry(connection, found?.row.name ?? unknownName, clock.now());
        return { password: found?.row.password ?? null, open: found?.account.state === 'active' && !waits };
      }),
    /** Call it if the password was right. Returns undefined if the account was changed since the try began. */
    endSignIn: (name: string, password: string) =>
      inTransaction(async (connection) => {
        const [found] = await accountRecords(connection, name);
        if (found?.account.state !== 'active' || found.row.password !== password) return undefined;
        await forgetTries(connection, name);
        return found.account;
      }),
    close: async () => {
      await backend.locks.close();
      await db.destroy();
      await backend.close();
    },
  };
}

async function addStep(connection: Connection, row: AccountRow, kind: string, more: Data, actor: Actor): Promise<void> {
  const data = { account: row.name, ...more };
  await appendSteps(connection, [{ at: row.changedAt, actor, kind, data, digest: sealOf(row.salt, { ...row }) }]);
}

/** Counts a try. Returns whether earlier tries keep the account from signing in now. */
async function countTry(connection: Connection, name: string, now: number): Promise<boolean> {
  const before = await connection.selectFrom('people_tries').selectAll().where('name', '=', name).executeTakeFirst();
  const isRecent = before !== undefined && before.lastAt >= timestampOf(now - dayMs);
  const until = blockedUntil(before, now);
  const failed = (isRecent ? before.failed : 0) + (until === null ? 1 : 0);
  const waitMs = waitAfter(failed);
  const next = waitMs === 0 ? null : timestampOf(now + waitMs);
  const values = { failed, blockedUntil: until ?? next, lastAt: timestampOf(now) };
  await connection
    .insertInto('people_tries')
    .values({ name, ...values })
    .onConflict((conflict) => conflict.column('name').doUpdateSet(values))
    .execute();
  return until !== null;
}

function waitAfter(failed: number): number {
  return failed < freeTries ? 0 : Math.min(longestWaitMs, firstWaitMs * 2 ** (failed - freeTries));
}

/** Returns the end of the wait; null if there is none, or the clock was set back to before it began, since it would hardly end. */
function blockedUntil(tries: JournalTables['people_tries'] | undefined, now: number): Timestamp | null {
  const until = tries?.blockedUntil ?? null;
  if (tries === undefined || until === null || until <= timestampOf(now)) return null;
  return later(until, -waitAfter(tries.failed)) > timestampOf(now) ? null : until;
}

async function forgetTries(connection: Connection, name: string): Promise<void> {
  await connection.deleteFrom('people_tries').where('name', '=', name).execute();
}

function rolesText(roles: readonly Role[]): string {
  return JSON.stringify(allRoles.filter((role) => roles.includes(role)));
}

function osUsersText(users: readonly string[] | null): string | null {
  return users === null ? null : JSON.stringify([...new Set(users)].sort());
}

function rolesAfter(before: readonly Role[], { add, remove }: RoleChange): Role[] {
  return [...before, ...add].filter((each) => !remove.includes(each));
}

/** Without an admin, accounts could only be changed on the command line. */
function refuseLastAdmin(name: string, accounts: readonly Account[]): void {
  if (accounts.some((each) => each.name !== name && hasRole(each, 'admin'))) return;
  throw new UsageError(`${name} is the last active admin`, {
    advice: 'Make somebody else an admin first, with `admin-mirror people role NAME --add admin`.',
  });
}
