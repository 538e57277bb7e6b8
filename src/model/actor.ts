/** Who does something: stands in every step of the journal and in every run of the mirror. */
import { hostname, userInfo } from 'node:os';

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
