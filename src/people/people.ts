/**
 * Accounts over whatever database holds the journal, in statements that SQLite and PostgreSQL both understand: they are checked
 * in the journal's transactions, so they are in its database. Every change is one durable step, which is appended to the chain in
 * the same transaction. Section "People" of docs/architecture.md.
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
import { type JournalBackend, openDatabase, type OpenJournal, transactionsOf } from '../journal/database.ts';
import { accountOf, type Connection, type JournalTables } from '../journal/tables.ts';
import { type Account, type AccountState, type Actor, hasRole, type Role, roles as allRoles } from '../model/actor.ts';
import { UsageError } from '../model/errors.ts';
import { type Clock, dayMs, minuteMs, secondMs, type Timestamp, timestampOf } from '../model/time.ts';
import { sessionsOf } from './sessions.ts';
import { nameTaken, refuseUnbound, unknownAccount } from './rules.ts';

export interface NewAccount {
  /** As `accountName` gives it. */
  readonly name: string;
  readonly roles: readonly Role[];
  readonly osUsers: readonly string[] | null;
  /** As `hashPassword` gives it; null where nobody shall sign in by one yet. */
  readonly password: string | null;
}

/** What is added and what is taken away; what is there, or is not, already stays as it is. */
interface RoleChange {
  readonly add: readonly Role[];
  readonly remove: readonly Role[];
}

export interface ListedAccount extends Account {
  /** Until when nobody can sign in, because of wrong passwords; null where that is not so. */
  readonly blockedUntil: Timestamp | null;
}

type AccountRow = JournalTables['people_accounts'];
type Data = Readonly<Record<string, Json>>;

/** Wrong passwords without a wait; then each one doubles the wait, up to the longest. */
const freeTries = 5;
const firstWaitMs = 30 * secondMs;
const longestWaitMs = 15 * minuteMs;

/** Where tries of names that nobody has are counted: they take as long as others. */
const nobody = '';

export type OpenPeople = Pick<OpenJournal, 'backend' | 'db' | 'id'>;

/**
 * Opens the accounts in the database that the backend leads to. The caller closes them, which closes the database.
 * @param actor who does what is done with them; null where they are only looked at
 */
export async function openPeopleOver(backend: JournalBackend, actor: Actor | null): Promise<People> {
  return peopleOf({ backend, ...(await openDatabase(backend)) }, actor);
}

export interface People extends ReturnType<typeof peopleOf> {}

function peopleOf(open: OpenPeople, actor: Actor | null) {
  const { backend, db } = open;
  const { clock } = backend;
  const whole = transactionsOf(open);
  const now = () => timestampOf(clock.now());
  const acting = (): Actor => {
    if (actor === null) throw new Error('accounts that were opened to be looked at are not changed');
    return actor;
  };

  /** Changes an account that is there; where nothing is to be changed, nothing is, and no step says so. */
  function change(
    name: string,
    kind: string,
    fieldsOf: (account: Account) => Partial<AccountRow> | undefined,
    data: Data = {},
  ): Promise<Account> {
    return whole(async (connection) => {
      const records = await accountRecords(connection);
      const accounts = records.map(({ account }) => account);
      const found = records.find(({ account }) => account.name === name);
      if (found === undefined) {
        throw unknownAccount(
          name,
          accounts.map((each) => each.name),
        );
      }
      const { row, account: before } = found;
      if (before.state === 'altered') throw accountAltered(name);
      const fields = fieldsOf(before);
      if (fields === undefined) return before;
      const changed = { ...row, ...fields };
      if (hasRole(before, 'admin') && !hasRole(accountOf(changed), 'admin')) refuseLastAdmin(name, accounts);
      refuseUnbound(accountOf(changed));
      // Whoever was locked out comes in by the new password.
      if (fields.password !== undefined) await forgetTries(connection, name);
      // They do not come back when it is enabled again.
      if (fields.state === 'disabled') {
        await connection.deleteFrom('people_sessions').where('account', '=', name).execute();
      }
      return storeChange(connection, changed, kind, data, acting(), clock);
    });
  }

  return {
    /** The same accounts, changed by somebody else. */
    by: (other: Actor): People => peopleOf(open, other),
    sessions: sessionsOf(open),
    /** In the order of their names. */
    accounts: async () => {
      const records = await accountRecords(db);
      const tries = await db.selectFrom('people_tries').select(['name', 'blockedUntil']).execute();
      const blocked = new Map(tries.map((each) => [each.name, each.blockedUntil]));
      return records.map(({ account }): ListedAccount => {
        const until = blocked.get(account.name) ?? null;
        return { ...account, blockedUntil: until !== null && until > now() ? until : null };
      });
    },
    account: async (name: string) => (await accountRecords(db, name))[0]?.account,

    /**
     * This and what changes an account throw a UsageError where it may not be: the name is taken or not known, the last admin would go, or nobody has said
     * of an approver which accounts of the system are the same person's.
     */
    add: ({ name, roles, osUsers, password }: NewAccount) =>
      whole(async (connection) => {
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
          const text = rolesText(differing(roles, difference));
          return text === rolesText(roles) ? undefined : { roles: text };
        },
        { add: [...difference.add], remove: [...difference.remove] },
      ),
    /** The accounts of the system that the person uses, all of them; none where the person uses none. */
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
    /** Wrong tries of before are forgotten. */
    setPassword: (name: string, password: string) =>
      change(name, 'account-password', () => ({ password, passwordAt: now() })),

    /**
     * Counts a try to sign in, before the password is looked at, so that tries side by side are all counted. `password` is the
     * hash that is stored, null where there is none; `open` is false where the try fails whatever the password.
     */
    beginSignIn: (name: string) =>
      whole(async (connection) => {
        const [found] = name === nobody ? [] : await accountRecords(connection, name);
        const isBlocked = await countTry(connection, found?.row.name ?? nobody, clock.now());
        return { password: found?.row.password ?? null, open: found?.account.state === 'active' && !isBlocked };
      }),
    /**
     * The password fitted. Undefined where the account was changed since the try began.
     * @param renewed a stronger hash of the same password, to be kept in place of `password`
     */
    endSignIn: (name: string, password: string, renewed: string | null) =>
      whole(async (connection) => {
        const [found] = await accountRecords(connection, name);
        if (found?.account.state !== 'active' || found.row.password !== password) return undefined;
        await forgetTries(connection, name);
        if (renewed === null) return found.account;
        const self = { ...acting(), account: name };
        const row = { ...found.row, password: renewed };
        return storeChange(connection, row, 'account-password-rehashed', {}, self, clock);
      }),
    close: async () => {
      await backend.locks.close();
      await db.destroy();
      await backend.close();
    },
  };
}

async function storeChange(
  connection: Connection,
  row: AccountRow,
  kind: string,
  data: Data,
  actor: Actor,
  clock: Clock,
): Promise<Account> {
  // A new salt each time, so that two seals do not tell whether the account is as it was.
  const by = { changedAt: timestampOf(clock.now()), changedBy: canonical({ ...actor }), salt: newSalt() };
  const changed = { ...row, ...by };
  await connection.updateTable('people_accounts').set(changed).where('name', '=', row.name).execute();
  await addStep(connection, changed, kind, data, actor);
  return accountOf(changed);
}

async function addStep(connection: Connection, row: AccountRow, kind: string, data: Data, actor: Actor): Promise<void> {
  const digest = sealOf(row.salt, { ...row });
  const step = { actor, batch: null, row: null, kind, data: { account: row.name, ...data }, note: null, digest };
  await appendSteps(connection, [{ at: row.changedAt, ...step }]);
}

/** Whether nobody can sign in to the account now, because of tries before this one. */
async function countTry(connection: Connection, name: string, now: number): Promise<boolean> {
  const before = await connection.selectFrom('people_tries').selectAll().where('name', '=', name).executeTakeFirst();
  const isRecent = before !== undefined && before.lastAt >= timestampOf(now - dayMs);
  const blockedUntil = before?.blockedUntil ?? null;
  const isBlocked = blockedUntil !== null && blockedUntil > timestampOf(now);
  const failed = (isRecent ? before.failed : 0) + (isBlocked ? 0 : 1);
  const waitMs = failed < freeTries ? 0 : Math.min(longestWaitMs, firstWaitMs * 2 ** (failed - freeTries));
  const next = waitMs === 0 ? null : timestampOf(now + waitMs);
  const values = { failed, blockedUntil: isBlocked ? blockedUntil : next, lastAt: timestampOf(now) };
  await connection
    .insertInto('people_tries')
    .values({ name, ...values })
    .onConflict((conflict) => conflict.column('name').doUpdateSet(values))
    .execute();
  return isBlocked;
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

function differing(before: readonly Role[], { add, remove }: RoleChange): Role[] {
  return [...before, ...add].filter((each) => !remove.includes(each));
}

/** Without one, nobody could change accounts any more but by the command line. */
function refuseLastAdmin(name: string, accounts: readonly Account[]): void {
  if (accounts.some((each) => each.name !== name && hasRole(each, 'admin'))) return;
  throw new UsageError(`${name} is the last active admin`, {
    advice: 'Make somebody else an admin first: `admin-mirror people role NAME --add admin`.',
  });
}
