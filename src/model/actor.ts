/** Who does something, as it stands in every step of the journal and in every run of the mirror; and accounts: what each role may do. */
import { hostname, userInfo } from 'node:os';
import type { Timestamp } from './time.ts';

export interface Actor {
  /** The name of the account on this machine, which the system vouches for. */
  readonly name: string;
  /** Null where the system has no such number. */
  readonly uid: number | null;
  readonly host: string;
  /** Who became that account by sudo; null where nobody did. */
  readonly sudoUser: string | null;
  /** The job of the worker that runs the command; null where a person typed it. */
  readonly job: string | null;
  /** The account of this program in whose name it is done; null where there is none. */
  readonly account: string | null;
}

/** The variable by which the worker says to a command whose job it is: no setting, so that no file and no flag says it. */
export const jobVariable = '_ADMIN_MIRROR_JOB';

/** By which the console says in whose name a sync is run, and its run's name: marks of the record, no rights. */
export const accountVariable = '_ADMIN_MIRROR_ACCOUNT';
export const runVariable = '_ADMIN_MIRROR_RUN';

/** What the console has said; undefined where a person or a job runs the command. */
export function startedFor(environment: Readonly<Record<string, string | undefined>>): {
  readonly account: string | null;
  readonly run: string | undefined;
} {
  const { [accountVariable]: account = '', [runVariable]: run = '' } = environment;
  return { account: account === '' ? null : account, run: run === '' ? undefined : run };
}

/** Whoever runs this process. */
export function actorOf(environment: Readonly<Record<string, string | undefined>>): Actor {
  const { SUDO_USER: sudoUser, [jobVariable]: job } = environment;
  return {
    ...systemAccount(),
    host: hostname(),
    sudoUser: sudoUser === undefined || sudoUser === '' ? null : sudoUser,
    job: job === undefined || job === '' ? null : job,
    account: null,
  };
}

function systemAccount(): Pick<Actor, 'name' | 'uid'> {
  try {
    const { username, uid } = userInfo();
    return { name: username, uid: uid < 0 ? null : uid };
  } catch {
    // A container may run under a number that has no name.
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

/** What each may do, as the console lets them; somebody may have several. */
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
