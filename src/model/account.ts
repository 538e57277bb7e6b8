/** Accounts of people: what each role may do, and whether whoever did something is the person of an account. */
import type { Actor } from './actor.ts';
import type { Timestamp } from './time.ts';

/** In the order in which they are shown. */
export const roles = ['reader', 'analyst', 'maker', 'approver', 'operator', 'admin'] as const;
export type Role = (typeof roles)[number];

export function isRole(text: string): text is Role {
  return (roles as readonly string[]).includes(text);
}

/** How somebody signed in to the console: `link` is the first admin's, shown once on the terminal. */
export type SignInMethod = 'password' | 'link' | 'oidc';

export type AccountState = 'active' | 'disabled';

export interface Account {
  /** In small letters: `Anna` and `anna` are one. */
  readonly name: string;
  readonly roles: readonly Role[];
  /** `altered`: its record is not what the journal's steps say; nothing is done by it or with it. */
  readonly state: AccountState | 'altered';
  /** What the person is called by the system on the command line, names or numbers; null where nobody has said. */
  readonly osUsers: readonly string[] | null;
  /** When its password was set; null where it has none, so that nobody can sign in to it. */
  readonly passwordAt: Timestamp | null;
  readonly createdAt: Timestamp;
  readonly createdBy: Actor;
  readonly changedAt: Timestamp;
  readonly changedBy: Actor;
}

/** Whether the account may do what the role allows, at this moment. */
export function hasRole({ state, roles: own }: Pick<Account, 'state' | 'roles'>, role: Role): boolean {
  return state === 'active' && own.includes(role);
}

/**
 * Whether the person of the account did it: as the account, or as one of the accounts of the system that are bound to it, also
 * by sudo, on whatever host. In doubt it was the same person: two pairs of eyes are needed.
 */
export function isSamePerson({ name, osUsers }: Pick<Account, 'name' | 'osUsers'>, actor: Actor): boolean {
  if (actor.account === name) return true;
  const system = [actor.name, actor.sudoUser, actor.uid === null ? null : String(actor.uid)];
  return (osUsers ?? []).some((each) => system.includes(each));
}

/**
 * Whether two that did something are one person: the same account, or accounts of the system that have a name in common or
 * are bound to one account. In doubt they are: what one person may do alone is counted.
 */
export function isOnePerson(a: Actor, b: Actor, accounts: readonly Pick<Account, 'name' | 'osUsers'>[]): boolean {
  if (a.account !== null && b.account !== null) return a.account === b.account;
  const namesOf = ({ name, sudoUser }: Actor): readonly string[] => (sudoUser === null ? [name] : [name, sudoUser]);
  const other = namesOf(b);
  if (a.account === null && b.account === null && namesOf(a).some((each) => other.includes(each))) return true;
  return accounts.some((each) => isSamePerson(each, a) && isSamePerson(each, b));
}

/** Whether somebody with these roles may see people's data: whoever does more than read. */
export function seesPeople(own: readonly Role[]): boolean {
  return own.some((role) => role !== 'reader');
}
