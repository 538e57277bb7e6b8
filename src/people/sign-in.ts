/**
 * Signing in: passwords, and the sessions of the console. Passwords are stored as scrypt hashes, each with its parameters. Of a
 * session, only a digest of the token is stored, so nobody can sign in with what the file holds. Sections "People" and "The
 * console" of docs/architecture.md.
 */
import { randomBytes, scrypt, type ScryptOptions, timingSafeEqual } from 'node:crypto';
import { isDeepStrictEqual, promisify } from 'node:util';
import { accountRecords, appendSteps, sha256, timeIn } from '../journal/chain.ts';
import { transactionRunner } from '../journal/database.ts';
import type { Connection, JournalTables } from '../journal/tables.ts';
import type { Account, Actor, SignInMethod } from '../model/actor.ts';
import { UsageError } from '../model/errors.ts';
import { hourMs, minuteMs, parseInstant, steadyClock, timestampOf } from '../model/time.ts';
import type { NewAccount, OpenPeople, People } from './people.ts';
import { nameTaken, normalName, normalPassword, passwordProblem, refuseUnbound, unknownAccount } from './rules.ts';

/** N = 2^logN. */
export interface Cost {
  readonly logN: number;
  readonly r: number;
  readonly p: number;
}

/** 128 MiB and about 0.3 s for each try, also for an attacker. */
const currentCost: Cost = { logN: 17, r: 8, p: 1 };

/** No hash of ours costs more: a manipulated file must not use up all memory. */
const maxCost: Cost = { logN: 20, r: 16, p: 4 };

const saltBytes = 16;
const keyBytes = 32;

const base64 = (bytes: Buffer): string => bytes.toString('base64').replaceAll('=', '');

function hashText({ logN, r, p }: Cost, salt: Buffer, key: Buffer): string {
  return `$scrypt$ln=${logN},r=${r},p=${p}$${base64(salt)}$${base64(key)}`;
}

function readHash(text: string) {
  const [, logN, r, p, salt = '', key = ''] =
    /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([\w+/]+)\$([\w+/]+)$/.exec(text) ?? [];
  const cost = { logN: Number(logN), r: Number(r), p: Number(p) };
  const fits = cost.logN > 0 && cost.logN <= maxCost.logN && cost.r <= maxCost.r && cost.p <= maxCost.p;
  const bytes = { salt: Buffer.from(salt, 'base64'), key: Buffer.from(key, 'base64') };
  return fits && cost.r * cost.p > 0 && bytes.key.length === keyBytes ? { cost, ...bytes } : undefined;
}

const derive: (password: string, salt: Buffer, bytes: number, options: ScryptOptions) => Promise<Buffer> =
  promisify(scrypt);

function keyOf(password: string, salt: Buffer, { logN, r, p }: Cost): Promise<Buffer> {
  const options: ScryptOptions = { N: 2 ** logN, r, p, maxmem: 2 * 128 * 2 ** logN * r };
  return derive(normalPassword(password), salt, keyBytes, options);
}

/** Returns the hash to store, with a salt of its own: `$scrypt$ln=17,r=8,p=1$…$…`. */
export async function hashPassword(password: string, cost: Cost = currentCost): Promise<string> {
  const salt = randomBytes(saltBytes);
  return hashText(cost, salt, await keyOf(password, salt, cost));
}

/** Returns the hash of a new password. Throws a UsageError if the password is not allowed. */
async function hashNewPassword(name: string, password: string, cost: Cost = currentCost): Promise<string> {
  const problem = passwordProblem(password, name);
  if (problem === undefined) return hashPassword(password, cost);
  throw new UsageError(problem, { advice: 'Four or five words that nobody would guess make a good one.' });
}

/** Returns whether the password matches the hash. If there is no readable hash it does not, and finding out takes as long. */
export async function isPassword(password: string, hash: string | null, cost: Cost = currentCost): Promise<boolean> {
  const stored = hash === null ? undefined : readHash(hash);
  const compared = stored ?? { cost, salt: Buffer.alloc(saltBytes), key: Buffer.alloc(keyBytes) };
  const fits = timingSafeEqual(await keyOf(password, compared.salt, compared.cost), compared.key);
  return fits && stored !== undefined;
}

/** Says the same for an unknown name, a wrong password, a disabled account and too many tries. */
export class SignInRefused extends UsageError {
  override readonly name = 'SignInRefused';

  constructor() {
    super('the name or the password is wrong, or the account may not sign in now', {
      advice:
        'After five wrong passwords an account waits, for up to 15 minutes: `admin-mirror people list` shows it, and who ' +
        'is disabled.',
    });
  }
}

/**
 * Returns the account with this password. Throws SignInRefused, with the same words and after the same time for every reason.
 * Only tests set `cost`: they must not take as long as an attacker.
 */
export async function authenticate(
  people: Pick<People, 'beginSignIn' | 'endSignIn'>,
  name: string,
  password: string,
  cost: Cost = currentCost,
): Promise<Account> {
  // No account has an empty name.
  const known = normalName(name) ?? '';
  const { password: hash, open } = await people.beginSignIn(known);
  const fits = await isPassword(password, hash, cost);
  const account = fits && open && hash !== null ? await people.endSignIn(known, hash) : undefined;
  if (account === undefined) throw new SignInRefused();
  return account;
}

/**
 * Adds an account. Throws a UsageError, before anybody is asked for a password, if that is not allowed.
 * @param ask returns the password; null if the account gets none yet
 */
export async function addAccount(
  people: People,
  account: Omit<NewAccount, 'password'>,
  ask: (() => Promise<string>) | null,
): Promise<Account> {
  const there = await people.account(account.name);
  if (there !== undefined) throw nameTaken(there);
  refuseUnbound(account);
  const password = ask === null ? null : await hashNewPassword(account.name, await ask());
  return people.add({ ...account, password });
}

/** Sets the password that `ask` returns. Throws a UsageError, before anybody is asked, if there is no such account. */
export async function changePassword(people: People, name: string, ask: () => Promise<string>): Promise<Account> {
  const accounts = await people.accounts();
  if (!accounts.some((each) => each.name === name)) throw unknownAccount(name, accounts);
  return people.setPassword(name, await hashNewPassword(name, await ask()));
}

/** Without the token: nobody can sign in with what is shown. */
export type Session = Omit<JournalTables['people_sessions'], 'token'>;

export const sessionLimits = {
  /** Without a request. */
  idleMs: hourMs,
  /** Even with requests. */
  absoluteMs: 12 * hourMs,
  /** The time of the last request is written at most once in this period: a page is not worth a write. */
  seenMs: minuteMs,
} as const;

const tokenBytes = 32;

export type Sessions = ReturnType<typeof sessionsOf>;

/** The sessions in the database of the accounts. */
export function sessionsOf(open: OpenPeople) {
  const { db, backend } = open;
  const clock = steadyClock(backend.clock);
  const inTransaction = transactionRunner(open);
  /** Never before the newest step: if the clock is set back, a session that has ended does not begin to live again. */
  const nowIn = async (connection: Connection): Promise<number> =>
    clock.now(parseInstant(await timeIn(connection, backend.clock)));
  const live = (now: number) =>
    db
      .selectFrom('people_sessions')
      .selectAll()
      .where('endsAt', '>', timestampOf(now))
      .where('seenAt', '>', timestampOf(now - sessionLimits.idleMs));
  return {
    /**
     * Begins a session of the account as it is when the person has proved who they are. Returns the token for the browser.
     * Throws a SignInRefused if the account was changed since: the proof may have been its former password.
     */
    begin: (
      account: Account,
      { method, address }: { readonly method: SignInMethod; readonly address: string },
      actor: Actor,
    ) => {
      const token = randomBytes(tokenBytes).toString('base64url');
      return inTransaction(async (connection) => {
        const [found] = await accountRecords(connection, account.name);
        if (!isDeepStrictEqual(found?.account, account)) throw new SignInRefused();
        const now = await nowIn(connection);
        const at = timestampOf(now);
        const row = {
          token: sha256(token),
          id: randomBytes(6).toString('hex'),
          account: account.name,
          method,
          address,
          createdAt: at,
          seenAt: at,
          endsAt: timestampOf(now + sessionLimits.absoluteMs),
        };
        await connection.deleteFrom('people_sessions').where('endsAt', '<=', at).execute();
        await connection.insertInto('people_sessions').values(row).execute();
        const data = { account: account.name, method, session: row.id };
        await appendSteps(connection, [{ at, actor, kind: 'signed-in', data }]);
        return token;
      });
    },
    /** Returns the account and session; null if it has ended. */
    find: async (token: string) => {
      const now = await nowIn(db);
      const row = await live(now).where('token', '=', sha256(token)).executeTakeFirst();
      if (row === undefined) return null;
      const [{ account } = {}] = await accountRecords(db, row.account);
      if (account?.state !== 'active') return null;
      if (row.seenAt < timestampOf(now - sessionLimits.seenMs)) {
        const seen = { seenAt: timestampOf(now) };
        await inTransaction((connection) =>
          connection.updateTable('people_sessions').set(seen).where('token', '=', row.token).execute(),
        );
      }
      return { account, session: sessionOf(row) };
    },
    /** The sessions that have not ended, of one account or all, newest first. */
    list: async (account?: string) => {
      const all = live(await nowIn(db));
      const rows = account === undefined ? all : all.where('account', '=', account);
      return (await rows.orderBy('createdAt', 'desc').execute()).map(sessionOf);
    },
    /** Ends the session with this id, or all of the account but one. Returns how many. */
    end: (which: { readonly id: string } | { readonly account: string; readonly except?: string }, actor: Actor) =>
      inTransaction(async (connection) => {
        const all = connection.deleteFrom('people_sessions');
        const some = 'id' in which ? all.where('id', '=', which.id) : all.where('account', '=', which.account);
        const but = 'id' in which || which.except === undefined ? some : some.where('id', '<>', which.except);
        const ended = await but.returning(['id', 'account']).execute();
        for (const { id, account } of ended) {
          const at = timestampOf(await nowIn(connection));
          const data = { account, session: id };
          await appendSteps(connection, [{ at, actor, kind: 'signed-out', data }]);
        }
        return ended.length;
      }),
  };
}

function sessionOf({ token: _token, ...session }: JournalTables['people_sessions']): Session {
  return session;
}
