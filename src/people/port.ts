/**
 * What is needed of the store of accounts. Every change is one durable step, which is appended to the journal's chain in the
 * same transaction. Section "People" of docs/architecture.md.
 */
import type { Account, AccountState, Role, Actor } from '../model/actor.ts';
import type { Timestamp } from '../model/time.ts';
import type { Sessions } from './sessions.ts';

export interface NewAccount {
  /** As `accountName` gives it. */
  readonly name: string;
  readonly roles: readonly Role[];
  readonly osUsers: readonly string[] | null;
  /** As `hashPassword` gives it; null where nobody shall sign in by one yet. */
  readonly password: string | null;
}

/** What is added and what is taken away; what is there, or is not, already stays as it is. */
export interface RoleChange {
  readonly add: readonly Role[];
  readonly remove: readonly Role[];
}

export interface ListedAccount extends Account {
  /** Until when nobody can sign in, because of wrong passwords; null where that is not so. */
  readonly blockedUntil: Timestamp | null;
}

export interface People {
  /** The same accounts, changed by somebody else. */
  by(actor: Actor): People;
  readonly sessions: Sessions;
  /** In the order of their names. */
  accounts(): Promise<ListedAccount[]>;
  account(name: string): Promise<Account | undefined>;

  /**
   * Each throws a UsageError where it may not be: the name is taken or not known, the last admin would go, or nobody has said
   * of an approver which accounts of the system are the same person's.
   */
  add(account: NewAccount): Promise<Account>;
  setState(name: string, state: AccountState): Promise<Account>;
  changeRoles(name: string, roles: RoleChange): Promise<Account>;
  /** The accounts of the system that the person uses, all of them; none where the person uses none. */
  setOsUsers(name: string, users: readonly string[]): Promise<Account>;
  /** Wrong tries of before are forgotten. */
  setPassword(name: string, password: string): Promise<Account>;

  /**
   * Counts a try to sign in, before the password is looked at, so that tries side by side are all counted. `password` is the
   * hash that is stored, null where there is none; `open` is false where the try fails whatever the password.
   */
  beginSignIn(name: string): Promise<{ readonly password: string | null; readonly open: boolean }>;
  /**
   * The password fitted. Undefined where the account was changed since the try began.
   * @param renewed a stronger hash of the same password, to be kept in place of `password`
   */
  endSignIn(name: string, password: string, renewed: string | null): Promise<Account | undefined>;
  close(): Promise<void>;
}
