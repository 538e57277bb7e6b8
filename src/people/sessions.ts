/**
 * Sessions of the console: who is signed in, from where, since when and until when. Only a digest of the browser's token is
 * stored, so nobody can sign in with what the file holds. Section "The console" of docs/architecture.md.
 */
import { randomBytes } from 'node:crypto';
import { accountRecords, appendSteps, sha256 } from '../journal/chain.ts';
import { transactionRunner } from '../journal/database.ts';
import type { JournalTables } from '../journal/tables.ts';
import type { Account, SignInMethod, Actor } from '../model/actor.ts';
import { hourMs, minuteMs, type Timestamp, timestampOf } from '../model/time.ts';
import type { OpenPeople } from './people.ts';

export interface Session {
  /** Names the session where it is shown; nobody can sign in with it. */
  readonly id: string;
  readonly account: string;
  readonly method: SignInMethod;
  readonly address: string;
  readonly createdAt: Timestamp;
  /** To the minute. */
  readonly seenAt: Timestamp;
  readonly endsAt: Timestamp;
}

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
  const { clock } = backend;
  const inTransaction = transactionRunner(open);
  const live = () => {
    const now = clock.now();
    return db
      .selectFrom('people_sessions')
      .selectAll()
      .where('endsAt', '>', timestampOf(now))
      .where('seenAt', '>', timestampOf(now - sessionLimits.idleMs));
  };
  return {
    /** Begins a session. Returns the token for the browser. */
    begin: (
      account: Account,
      { method, address }: { readonly method: SignInMethod; readonly address: string },
      actor: Actor,
    ) => {
      const token = randomBytes(tokenBytes).toString('base64url');
      const now = clock.now();
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
      return inTransaction(async (connection) => {
        await connection.deleteFrom('people_sessions').where('endsAt', '<=', at).execute();
        await connection.insertInto('people_sessions').values(row).execute();
        const data = { account: account.name, method, session: row.id };
        await appendSteps(connection, [{ at, actor, batch: null, row: null, kind: 'signed-in', data, note: null }]);
        return token;
      });
    },
    /** Returns the account and session; null if it has ended, or the account was disabled or changed its password since. */
    find: async (token: string) => {
      const row = await live().where('token', '=', sha256(token)).executeTakeFirst();
      if (row === undefined) return null;
      const [{ account } = {}] = await accountRecords(db, row.account);
      if (account?.state !== 'active') return null;
      // People who change a password because somebody else knows it want that person out.
      if (account.passwordAt !== null && account.passwordAt > row.createdAt) return null;
      const now = clock.now();
      if (row.seenAt < timestampOf(now - sessionLimits.seenMs)) {
        await inTransaction((connection) =>
          connection
            .updateTable('people_sessions')
            .set({ seenAt: timestampOf(now) })
            .where('token', '=', row.token)
            .execute(),
        );
      }
      return { account, session: sessionOf(row) };
    },
    /** The sessions that have not ended, of one account or all, newest first. */
    list: async (account?: string) => {
      const rows = account === undefined ? live() : live().where('account', '=', account);
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
          const at = timestampOf(clock.now());
          const data = { account, session: id };
          await appendSteps(connection, [{ at, actor, batch: null, row: null, kind: 'signed-out', data, note: null }]);
        }
        return ended.length;
      }),
  };
}

function sessionOf({ token: _token, ...session }: JournalTables['people_sessions']): Session {
  return session;
}
