// @module-tag full
/** How the shared store handles a failing PostgreSQL: lost responses, unsafe settings, servers that are not there. */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { journalKind } from '../../src/journal/schema.ts';
import { FileError } from '../../src/model/errors.ts';
import { parseDatabaseAddress, type SharedStore } from '../../src/model/address.ts';
import { Secret } from '../../src/model/secret.ts';
import { dayMs, hourMs, minuteMs, secondMs, systemClock } from '../../src/model/time.ts';
import { connectTo } from '../../src/store/postgres.ts';
import { serverBehind } from '../../src/store/postgres-server.ts';
import { openShared, sharedStatements } from '../../src/store/postgres-schema.ts';
import { workerKind } from '../../src/worker/store/sqlite.ts';
import { freePort } from '../support/free-port.ts';
import { newBatch, newIntent } from '../support/journal.ts';
import { openLine } from '../support/line.ts';
import { temporaryDatabase } from '../support/postgres.ts';
import { sharedJournal, sharedStores, storeOf } from '../support/shared.ts';

const newSharedStore = sharedStores();

/**
 * The store through a proxy that cuts the connection at the next COMMIT: before it arrives, or before its response
 * does.
 * @param onFull called when the server says that it has no free connection
 */
async function throughLine(store: SharedStore, onFull = () => {}) {
  let cut: 'before' | 'after' | undefined;
  let times = 0;
  const { port } = await openLine(store.address, (end) => {
    let isCutting = false;
    return {
      toServer: (bytes) => {
        if (cut === undefined || !bytes.includes('\0\u000bcommit\0')) return true;
        times += 1;
        isCutting = cut === 'after';
        cut = undefined;
        if (!isCutting) end();
        return isCutting;
      },
      toClient: (bytes) => {
        if (bytes.includes('C53300')) onFull();
        if (isCutting) end();
        return !isCutting;
      },
    };
  });
  return {
    store: { ...store, address: { ...store.address, port } },
    cutAtCommit: (when: 'before' | 'after') => void (cut = when),
    times: () => times,
  };
}

test('a step is retried if the server closed the connection', async () => {
  const { store, database } = await newSharedStore();
  const journal = await sharedJournal(store);
  await journal.addBatch(newBatch(), [newIntent(2, 7)]);
  for (const doing of [() => journal.setBatchState('one', 'stopped'), () => journal.batch('one')]) {
    await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
    );
    await doing();
  }
  expect((await journal.batch('one'))?.state).toBe('stopped');
});

test('a server without a free connection is waited for, like one that restarts', async () => {
  const database = await temporaryDatabase();
  // The limit does not apply to superusers.
  const role = `role_of_${database.name}`;
  await database.query(`create role ${role} login password 'p'; grant create on database ${database.name} to ${role}`);
  const url = new URL(database.url);
  url.username = role;
  const limited = (count: number) => database.query(`alter role ${role} connection limit ${count}`);
  let refused = 0;
  const line = await throughLine(storeOf({ url: url.href, password: 'p' }, 'm'), () => {
    refused += 1;
    if (refused === 2) void limited(-1);
  });
  const journal = await sharedJournal(line.store);
  await journal.addBatch(newBatch(), [newIntent(2, 7)]);
  await limited(0);
  await database.query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${role}'`);
  await journal.setBatchState('one', 'stopped');
  expect((await journal.batch('one'))?.state).toBe('stopped');
  expect(refused).toBeGreaterThanOrEqual(2);
});

test('a server that was read-only for a while is written again as soon as possible by the same journal', async () => {
  const { store, database } = await newSharedStore();
  const journal = await sharedJournal(store);
  await journal.addBatch(newBatch(), [newIntent(2, 7)]);
  const onlyReads = async (value: 'on' | 'off') => {
    await database.query('set default_transaction_read_only = off');
    await database.query(`alter database "${database.name}" set default_transaction_read_only = ${value}`);
  };
  await onlyReads('on');
  await database.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
  );
  await expect(journal.setBatchState('one', 'stopped')).rejects.toThrow('it is read-only (25006)');
  await onlyReads('off');
  await journal.setBatchState('one', 'stopped');
  expect((await journal.batch('one'))?.state).toBe('stopped');
});

test('tables that are gone are reported, and used again when they are back', async () => {
  const { store, database } = await newSharedStore();
  const journal = await sharedJournal(store);
  await journal.addBatch(newBatch(), [newIntent(2, 7)]);
  const quoted = `"${store.schema.replaceAll('"', '""')}"`;
  await database.query(`alter schema ${quoted} rename to aside`);
  await expect(journal.setBatchState('one', 'stopped')).rejects.toThrow(/its tables are gone/);
  await expect(journal.batch('one')).rejects.toThrow(/its tables are gone/);
  await database.query(`alter schema aside rename to ${quoted}`);
  await journal.setBatchState('one', 'stopped');
  expect((await journal.batch('one'))?.state).toBe('stopped');
});

describe('a step whose commit got no response', () => {
  test('counts as done if it was committed, and is done once', async () => {
    const { store } = await newSharedStore();
    const line = await throughLine(store);
    const journal = await sharedJournal(line.store);
    await journal.addBatch(newBatch(), [newIntent(2, 7)]);
    for (const doing of [
      () => journal.claim('one', { repeatsSince: clockText, daySince: clockText }, () => []),
      () => journal.move({ batch: 'one', row: 2, from: 'planned', to: 'sending' }),
      () => journal.addBatch(newBatch({ batch: 'two' }), [newIntent(2, 8)]),
      () => journal.acquireLock('one'),
    ]) {
      line.cutAtCommit('after');
      await doing();
    }
    expect(line.times()).toBe(4);
    expect((await journal.intent('one', 2))?.state).toBe('sending');
    expect((await journal.batches()).map(({ batch }) => batch).sort()).toEqual(['one', 'two']);
    expect((await journal.steps('one')).map(({ kind }) => kind)).toEqual(['added', 'claimed', 'sending']);
    expect(await journal.verifyChain()).toMatchObject({ status: 'whole' });
  });

  test('counts as not done if it was not committed, and reports the cut connection', async () => {
    const { store } = await newSharedStore();
    const line = await throughLine(store);
    const journal = await sharedJournal(line.store);
    await journal.addBatch(newBatch(), [newIntent(2, 7)]);
    line.cutAtCommit('before');
    const adding = journal.addBatch(newBatch({ batch: 'two' }), [newIntent(2, 8)]);
    await expect(adding).rejects.toThrow(FileError);
    await expect(adding).rejects.toThrow(/the shared store postgresql:\/\/\S+: the connection was cut/);
    expect((await journal.batches()).map(({ batch }) => batch)).toEqual(['one']);
    // The next step gets a working connection.
    await journal.setBatchState('one', 'stopped');
  });
});

const clockText = '2026-01-01T00:00:00.000000Z' as never;

describe('a server that may lose confirmed commits', () => {
  test.each([
    ['synchronous_commit = off', /its synchronous_commit is off, so that a payment on record could be forgotten/],
    ['synchronous_commit = local', /its synchronous_commit is local/],
  ])('is refused: %s', async (setting, words) => {
    const database = await temporaryDatabase();
    await database.query(`alter database ${database.name} set ${setting}`);
    await expect(openShared(storeOf(database, 'm'), journalKind)).rejects.toThrow(words);
    const { rows } = await database.query(`select nspname from pg_namespace where nspname = 'm'`);
    expect(rows).toEqual([]);
  });

  test('that becomes unsafe while it is used still confirms each step', async () => {
    const database = await temporaryDatabase();
    const journal = await sharedJournal(storeOf(database, 'm'));
    await database.query(`alter database ${database.name} set synchronous_commit = off`);
    await database.query(`create function m.look() returns trigger language plpgsql as
      $$ begin raise exception 'it is %', current_setting('synchronous_commit'); end $$`);
    await database.query(
      'create trigger look before insert on m.journal_batches for each row execute function m.look()',
    );
    await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
    );
    await expect(journal.addBatch(newBatch(), [])).rejects.toThrow(/it is on|the connection was cut|being shut down/);
    await expect(journal.addBatch(newBatch(), [])).rejects.toThrow(/it is on/);
  });
});

test("a journal uses the clock of the database, even if the machine's clock changes", async () => {
  const { store, database, schema } = await newSharedStore();
  const journal = await sharedJournal(store, systemClock);
  const shown = vi.spyOn(Date, 'now');
  onTestFinished(() => shown.mockRestore());
  const right = () => Number(process.hrtime.bigint() / 1_000_000n);
  const start = Date.now() - right();
  for (const wrongBy of [0, -hourMs, 20 * minuteMs, dayMs, -4 * secondMs]) {
    shown.mockImplementation(() => start + right() + wrongBy);
    expect(Math.abs(journal.clock.now() - start - right())).toBeLessThan(secondMs);
    await journal.addBatch(newBatch({ batch: `by ${wrongBy}` }), [newIntent(2, 7)]);
  }
  const { rows } = await database.query(
    `select at::timestamptz < clock_timestamp() and at::timestamptz > clock_timestamp() - interval '1 minute' as right_time
       from ${schema}.journal_steps`,
  );
  expect(rows).toEqual(rows.map(() => ({ right_time: true })));
  expect(rows).toHaveLength(5);
});

describe('a server that cannot be used', () => {
  const address = (url: string) => {
    const found = parseDatabaseAddress(url);
    if (found === undefined) throw new Error(url);
    return found;
  };
  const opening = (url: string, password?: string) => {
    const secret = password === undefined ? undefined : new Secret(password);
    return openShared({ address: address(url), password: secret, ca: undefined, schema: 'm' }, journalKind);
  };

  test('is reported with what to do, and without the password', async () => {
    const database = await temporaryDatabase();
    const port = await freePort();
    const nobody = opening(`postgresql://mirror@127.0.0.1:${port}/any`, 'the-password');
    await expect(nobody).rejects.toMatchObject({
      name: 'FileError',
      message: `the shared store postgresql://mirror@127.0.0.1:${port}/any: nothing listens there (ECONNREFUSED)`,
      advice: 'Start PostgreSQL, or correct store.shared.',
    });
    const url = new URL(database.url);
    url.pathname = '/not-there';
    await expect(opening(url.href, database.password)).rejects.toThrow(/not-there: there is no such database/);
    const encrypted = new URL(database.url);
    encrypted.searchParams.set('sslmode', 'require');
    await expect(opening(encrypted.href, database.password)).rejects.toMatchObject({
      name: 'FileError',
      message: expect.stringMatching(/: no encrypted connection: .*does not support SSL/),
      advice: expect.stringContaining('network.ca_file'),
    });
  });

  test('is refused if its database has another encoding', async () => {
    const database = await temporaryDatabase();
    await database.query(`create database latin_${process.pid} encoding 'LATIN1' template template0 locale 'C'`);
    const url = new URL(database.url);
    url.pathname = `/latin_${process.pid}`;
    await expect(opening(url.href, database.password)).rejects.toThrow(/cannot be used: its encoding is LATIN1/);
    await database.query(`drop database latin_${process.pid}`);
  });

  test.each([
    ['is too old', { version: 120_000 }, 'it is PostgreSQL 12'],
    ['is read-only', { standby: true }, 'it is a standby, which only reads'],
  ])('is refused if it %s', async (_, found, why) => {
    const server = {
      version: 130_000,
      encoding: 'UTF8',
      standby: false,
      synchronousCommit: 'on',
      fsync: 'on',
      ...found,
    };
    const asked = async <Row>() => [server] as Row[];
    const refuse = (reason: string, advice: string) => new FileError(reason, { advice });
    await expect(serverBehind(asked, 'store.shared', refuse)).rejects.toThrow(why);
  });

  test('is left unchanged if another version created the store', async () => {
    const { store, tamper } = await newSharedStore();
    await (await openShared(store, journalKind)).close();
    await tamper('update store_kinds set version = version + 87');
    await expect(openShared(store, journalKind)).rejects.toThrow(/has version 88.*left it as it is/);
  });
});

test('several processes that create the store at once create one', async () => {
  const { store, database, schema } = await newSharedStore();
  const made = await Promise.all([1, 2, 3, 4].map((at) => openShared(store, at % 2 ? journalKind : workerKind)));
  await Promise.all(made.map((each) => each.close()));
  const { rows } = await database.query(`select kind, version from ${schema}.store_kinds order by kind`);
  expect(rows).toEqual([
    { kind: 'journal', version: String(journalKind.version) },
    { kind: "worker's file", version: String(workerKind.version) },
  ]);
  expect((await database.query(`select count(*)::int as ids from ${schema}.journal_identity`)).rows).toEqual([
    { ids: 1 },
  ]);
});

test('commit marks of old connections are removed', async () => {
  const { store, database, schema } = await newSharedStore();
  const open = async () => (await openShared(store, journalKind)).close();
  await open();
  await database.query(
    `insert into ${schema}.store_commits values ('old', 1, now() - interval '8 days'), ('new', 1, now())`,
  );
  await open();
  expect((await database.query(`select connection from ${schema}.store_commits`)).rows).toEqual([
    { connection: 'new' },
  ]);
});

test('the tables are those of the golden file', async () => {
  const id = /INSERT INTO journal_identity .*/;
  const statements = [...sharedStatements(journalKind), ...sharedStatements(workerKind)];
  await expect(`${statements.filter((each) => !id.test(each)).join(';\n\n')};\n`).toMatchFileSnapshot(
    'golden-shared.sql',
  );
});

test('whole numbers are read as numbers, as in SQLite', async () => {
  const { store } = await newSharedStore();
  const database = connectTo(store);
  onTestFinished(() => database.close());
  expect(await database.query('select count(*) as count, 9007199254740991::bigint as most')).toEqual([
    { count: 1, most: Number.MAX_SAFE_INTEGER },
  ]);
});
