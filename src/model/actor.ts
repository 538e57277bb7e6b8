/** Actors, as every step of the journal and every run of the mirror records them; accounts, and what each role may do. */
import { hostname, userInfo } from 'node:os';
import type { Timestamp } from './time.ts';

export interface Actor {
  /** The name of the account on this machine, which the system vouches for. */
  readonly name: string;
  /** Null if the system has no user numbers. */
  readonly uid: number | null;
  readonly host: string;
  /** Who became that account by sudo; null if nobody did. */
  readonly sudoUser: string | null;
  /** The worker's job that runs the command; null if a person typed it. */
  readonly job: string | null;
  /** The account of this program for which it is done; null if there is none. */
  readonly account: string | null;
}

/** Returns the actor that runs this process. */
export function actorOf(environment: Readonly<Record<string, string | undefined>>): Actor {
  const { SUDO_USER: sudoUser } = environment;
  return {
    ...systemAccount(),
    host: hostname(),
    sudoUser: sudoUser === undefined || sudoUser === '' ? null : sudoUser,
    job: null,
    account: null,
  };
}

function systemAccount(): Pick<Actor, 'name' | 'uid'> {
  try {
    const { username, uid } = userInfo();
    return { name: username, uid: uid < 0 ? null : uid };
  } catch {
    // A container may run under a number without a name.
    const uid = process.getuid?.() ?? null;
    return { name: uid === null ? 'unknown' : `uid ${uid}`, uid };
  }
}

/** `anna@office (by sudo from bob)`, `job nightly (mirror@office)`, `account carla (web@office)`. */
export function actorText({ name, host, sudoUser, job, account }: Actor): string {
  const place = host === '' ? name : `${name}@${host}`;
  const system = sudoUser === null ? place : `${place}, by sudo from ${sudoUser}`;
  if (account !== null) return `account ${account} (${system})`;
  if (job !== null) return `job ${job} (${system})`;
  return sudoUser === null ? place : `${place} (by sudo from ${sudoUser})`;
}

/** In the order in which they are shown. */
export const roles = ['reader', 'analyst', 'maker', 'approver', 'operator', 'admin'] as const;
export type Role = (typeof roles)[number];

/** What each role may do in the console. An account may have several. */
export const roleWords: Readonly<Record<Role, string>> = {
  reader: 'sees how fresh the mirror is, the runs, the data and the saved reports, with everything about people masked',
  analyst: 'sees the data and the reports whole, and writes SQL',
  maker: 'makes batches and sends them, as far as one person may; sees people’s data',
  approver: 'approves or denies the batches of others; sees people’s data and the audit',
  operator: 'starts and stops runs; sees people’s data, batches and the audit, and writes SQL',
  admin: 'adds and changes accounts, and may do what an operator may',
};

export function isRole(text: string): text is Role {
  return (roles as readonly string[]).includes(text);
}

/** How somebody signed in to the console. `link` is the first admin's, shown once on the terminal. */
export type SignInMethod = 'password' | 'link' | 'oidc';

export type AccountState = 'active' | 'disabled';

export interface Account {
  /** In lower case: `Anna` and `anna` are one. */
  readonly name: string;
  readonly roles: readonly Role[];
  /** `altered`: the record does not match the journal's steps, so nobody can use the account. */
  readonly state: AccountState | 'altered';
  /** The person's system accounts on the command line, names or numbers; null if nobody has named them. */
  readonly osUsers: readonly string[] | null;
  /** When its password was set; null if it has none, so that nobody can sign in. */
  readonly passwordAt: Timestamp | null;
  readonly createdAt: Timestamp;
  readonly createdBy: Actor;
  readonly changedAt: Timestamp;
  readonly changedBy: Actor;
}

/** Returns whether the account has the role and is active. */
export function hasRole({ state, roles: own }: Pick<Account, 'state' | 'roles'>, role: Role): boolean {
  return state === 'active' && own.includes(role);
}

/**
 * Returns whether the account's person is the actor: by the account itself, or by one of its system accounts, also through sudo
 * and on any host. When in doubt it says yes, because two pairs of eyes are required.
 */
export function isSamePerson({ name, osUsers }: Pick<Account, 'name' | 'osUsers'>, actor: Actor): boolean {
  if (actor.account === name) return true;
  const system = [actor.name, actor.sudoUser, actor.uid === null ? null : String(actor.uid)];
  return (osUsers ?? []).some((each) => system.includes(each));
}

/**
 * Returns whether two actors are one person: the same account, or system accounts that have a name in common or belong to one
 * account. When in doubt it says yes, because it counts what one person may do alone.
 */
export function isOnePerson(a: Actor, b: Actor, accounts: readonly Pick<Account, 'name' | 'osUsers'>[]): boolean {
  if (a.account !== null && b.account !== null) return a.account === b.account;
  const namesOf = ({ name, sudoUser }: Actor): readonly string[] => (sudoUser === null ? [name] : [name, sudoUser]);
  const other = namesOf(b);
  if (a.account === null && b.account === null && namesOf(a).some((each) => other.includes(each))) return true;
  return accounts.some((each) => isSamePerson(each, a) && isSamePerson(each, b));
}

/** Returns whether these roles may see people's data: all but `reader` may. */
export function seesPeople(own: readonly Role[]): boolean {
  return own.some((role) => role !== 'reader');
}
