// @module-tag full
/** The mirror in PostgreSQL: everything, then only changes, and back. */
import { closeSync, openSync, writeSync } from 'node:fs';
import SqliteDatabase from 'better-sqlite3';
import { Client } from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { forgetUser, openForgetStore } from '../../src/mirror/forget.ts';
import { parseDatabaseAddress } from '../../src/model/address.ts';
import { OperatorError } from '../../src/model/errors.ts';
import { resourceNames } from '../../src/model/resources.ts';
import { hourMs, systemClock } from '../../src/model/time.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { awkwardUsers } from '../support/awkward-users.ts';
import { changePerson, person, personalTexts, placePerson } from '../support/forget.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';
import { expectMirrored, sync } from '../support/mirror.ts';
import { temporaryDatabase } from '../support/postgres.ts';
import { checkIn, destinationIn, openCutter, publishTo, restoreTo, visibleIn } from '../support/publish.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const includes = { users: ['orders', 'payments', 'address'], packages: ['orders'], emails: [] };

interface Mirrored {
  readonly sandbox: Sandbox;
  readonly file: string;
  /** Another full sync, an hour later. */
  readonly next: () => Promise<unknown>;
}

/** A sandbox with a person in it, and a mirror with related records and history. */
async function mirrored(): Promise<Mirrored> {
  const sandbox = await startSandbox();
  const emails = placePerson(sandbox);
  const file = `${temporaryFolder()}/mirror.db`;
  const next = async () => {
    sandbox.control.advanceClock(hourMs);
    return sync(sandbox, file, { includes, mode: 'full' });
  };
  await next();
  changePerson(sandbox, emails);
  await next();
  return { sandbox, file, next };
}

/** What the mirror keeps about itself, without what belongs to its file. */
const kept = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'mirror_*'
  AND name NOT IN ('mirror_locks', 'mirror_pages', 'mirror_touched', 'mirror_deletions')`;

/** All rows of all published tables, as in SQLite. */
function contentsOf(file: string): Record<string, unknown[]> {
  const database = new SqliteDatabase(file, { readonly: true });
  try {
    const relations = database.prepare<[], string>('SELECT table_name FROM mirror_relations').pluck().all();
    const names = [
      ...resourceNames.flatMap((name) => [name, `${name}_history`]),
      ...relations.flatMap((name) => [name, `${name}_flat`]),
      ...database.prepare<[], string>(kept).pluck().all(),
      'mirror_freshness',
      'mirror_deletions',
    ];
    return Object.fromEntries(
      names.map((name) => {
        const rows = database.prepare<[], unknown[]>(`SELECT * FROM "${name}"`).raw(true).safeIntegers(true).all();
        const texts = rows.map((row) => row.map((cell) => (typeof cell === 'bigint' ? `${cell}n` : cell)));
        return [name, texts.map((row) => JSON.stringify(row)).sort()];
      }),
    );
  } finally {
    database.close();
  }
}

function changed(file: string, sql: string): void {
  const mirror = openMirrorFile(file);
  mirror.exec(sql);
  mirror.close();
}

// proves: published
test('a mirror is published whole, then by changes, and restored exactly', async () => {
  const { sandbox, file, next } = await mirrored();
  const destination = destinationIn(await temporaryDatabase());
  expect(await publishTo(file, destination)).toMatchObject({ mode: 'whole', tables: { users: { written: 60 } } });
  sandbox.control.update('users', 3, { first_name: 'Another' });
  sandbox.control.remove('emails', 5);
  sandbox.control.insert('coupons', { code: 'NEW' });
  await next();
  expect(await publishTo(file, destination)).toMatchObject({
    mode: 'changes',
    tables: {
      users: { written: 1, deleted: 0 },
      users_history: { written: 1, deleted: 0 },
      emails: { written: 0, deleted: 1 },
      coupons: { written: 1, deleted: 0 },
    },
  });
  expect(await checkIn(file, destination)).toMatchObject({ equal: true, waiting: 0 });
  const copy = `${temporaryFolder()}/mirror.db`;
  await restoreTo(copy, destination);
  expect(contentsOf(copy)).toEqual(contentsOf(file));

  // The restored mirror continues: almost nothing is read again, and nothing is published again.
  const { report } = await sync(sandbox, copy, { includes, mode: 'quick' });
  expect(report.status).toBe('complete');
  expect(report.requests).toBeLessThan(20);
  expectMirrored(sandbox, copy);
  const again = await publishTo(copy, destination);
  expect(again).toMatchObject({ mode: 'changes', tables: { users: { written: 0 }, emails: { written: 0 } } });
});

test('the runs of a restored mirror keep their order', async () => {
  const { file, next } = await mirrored();
  for (let run = 0; run < 4; run += 1) await next();
  const destination = destinationIn(await temporaryDatabase());
  await publishTo(file, destination);
  const copy = `${temporaryFolder()}/mirror.db`;
  await restoreTo(copy, destination);
  const runsOf = (path: string): unknown[] => {
    const database = new SqliteDatabase(path, { readonly: true });
    const runs = database.prepare('SELECT run FROM mirror_runs ORDER BY rowid').pluck().all();
    database.close();
    return runs;
  };
  expect(runsOf(copy)).toEqual(runsOf(file));
});

// proves: publish-reader
test('published columns have types and comments, and the reader can only read', async () => {
  const { file } = await mirrored();
  const database = await temporaryDatabase();
  await publishTo(file, destinationIn(database));
  const { rows } = await database.query(
    `SELECT a.attname AS name, format_type(a.atttypid, NULL) AS type
     FROM pg_attribute AS a WHERE a.attrelid = 'mirror.users'::regclass AND a.attnum > 0`,
  );
  const columns = rows as { name: string; type: string }[];
  expect(Object.fromEntries(columns.map(({ name, type }) => [name, type]))).toMatchObject({
    id: 'bigint',
    balance: 'numeric',
    is_subscribed: 'bigint',
    email: 'text',
    data: 'text',
    data_json: 'jsonb',
    created_at: 'timestamp with time zone',
    _seq: 'bigint',
  });
  const silent = await database.query(
    `SELECT c.relname, a.attname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
     WHERE c.relnamespace = 'mirror'::regnamespace AND c.relkind IN ('r', 'v') AND NOT a.attisdropped
     AND c.relname NOT IN ('mirror_publication', 'mirror_bookkeeping')
     AND (col_description(a.attrelid, a.attnum) IS NULL OR obj_description(c.oid) IS NULL)`,
  );
  expect(silent.rows).toEqual([]);
  expect(
    await database.query("SELECT record_json ->> 'domain' AS domain FROM mirror.user_orders WHERE user_id = 7"),
  ).toMatchObject({ rows: [{ domain: 'zq-order-domain.example' }] });

  const reader = new Client({ connectionString: database.urlWithPassword });
  await reader.connect();
  onTestFinished(() => reader.end());
  await reader.query(`SET ROLE "${database.name}_reader"`);
  const seen = async (sql: string) => (await reader.query(sql)).rows as unknown[];
  expect(await seen('SELECT count(*) AS users FROM mirror.users')).toEqual([{ users: '60' }]);
  expect(await seen('SELECT resource FROM mirror.mirror_freshness WHERE fresh_as_of IS NOT NULL')).toHaveLength(4);
  for (const sql of [
    'DELETE FROM mirror.users',
    'CREATE TABLE mirror.another (id bigint)',
    'SELECT * FROM mirror.mirror_bookkeeping',
    'SELECT * FROM mirror.mirror_publication',
  ]) {
    await expect(reader.query(sql)).rejects.toThrow('permission denied');
  }
});

test('a value that does not fit its column is kept in _raw, and does not stop the publication', async () => {
  const nul = 'with a \0 in it';
  const tried: Readonly<Record<string, Readonly<Record<string, string | bigint | number | null>>>> = {
    nul: { username: nul, avatar: nul, _extra: '{"note":"a\\u0000b"}' },
    surrogate: { data: '{"half":"\\ud83d","pair":"\\ud83d\\ude00"}' },
    dates: {
      created_at: '0000-00-00T00:00:00.000000Z',
      updated_at: '2026-02-30T10:00:00.000000Z',
      last_seen_at: 'soon',
    },
    zones: {
      created_at: '2026-03-11 12:00:00',
      updated_at: '2026-03-11T12:00:00+02:00',
      last_seen_at: '1969-12-31 23:59:59.5',
    },
    numbers: { balance: 1e300, data: '{"n":1e400,"m":123456789012345678901234567890.5}' },
    infinite: { balance: Number.POSITIVE_INFINITY },
    tiny: { balance: 5e-324, is_subscribed: -(2n ** 63n) },
    exact: { balance: 0.1 + 0.2, is_subscribed: 2n ** 63n - 1n },
    text: { username: '\\N', first_name: '\\.', last_name: '\t\r\n\\t', email: '' },
    deep: { data: `${'['.repeat(900)}${']'.repeat(900)}`, avatar: 'not { json' },
    stray: { _extra: '{"balance":"12,50","last_ip":"192.0.2.1"}' },
  };
  const names = Object.keys(tried);
  const file = awkwardUsers();
  const mirror = openMirrorFile(file);
  insertRows(
    mirror,
    'users',
    names.map((name, index) => ({ id: BigInt(1_000 + index), ...tried[name] })),
  );
  mirror.close();
  const database = await temporaryDatabase();
  const destination = destinationIn(database);
  await publishTo(file, destination);
  expect(await checkIn(file, destination)).toMatchObject({ equal: true });
  const copy = `${temporaryFolder()}/mirror.db`;
  await restoreTo(copy, destination);
  expect(contentsOf(copy)).toEqual(contentsOf(file));

  const shown = async (name: string, columns: string) => {
    const { rows } = await database.query(`SELECT ${columns} FROM mirror.users WHERE id = $1`, [
      1_000 + names.indexOf(name),
    ]);
    return rows[0] as unknown;
  };
  expect(await shown('nul', 'username, _extra_json')).toEqual({ username: 'with a \u2400 in it', _extra_json: null });
  expect(await shown('dates', 'created_at, updated_at, last_seen_at, _raw')).toMatchObject({
    created_at: null,
    updated_at: null,
    last_seen_at: null,
    _raw: expect.stringContaining('2026-02-30') as string,
  });
  expect(
    await shown(
      'zones',
      `created_at = '2026-03-11 12:00Z' AS a, updated_at = '2026-03-11 10:00Z' AS b, last_seen_at = '1969-12-31 23:59:59.5Z' AS c`,
    ),
  ).toEqual({ a: true, b: true, c: true });
  expect(await shown('numbers', `balance = 1e300 AS a, data_json ->> 'm' AS b`)).toEqual({
    a: true,
    b: '123456789012345678901234567890.5',
  });
  expect(await shown('exact', 'balance, is_subscribed')).toEqual({
    balance: '0.30000000000000004',
    is_subscribed: '9223372036854775807',
  });
  expect(await shown('infinite', 'balance, _raw')).toEqual({ balance: null, _raw: '{"balance":"9e999"}' });
  expect(await shown('text', 'username, first_name, last_name, email')).toEqual({
    username: '\\N',
    first_name: '\\.',
    last_name: '\t\r\n\\t',
    email: '',
  });
});

test('a cut connection leaves readers a published state, and the next publication completes', async () => {
  const { sandbox, file, next } = await mirrored();
  const database = await temporaryDatabase();
  const destination = destinationIn(database);
  const cutter = await openCutter(destination.address.port);
  const through = { ...destination, address: { ...destination.address, port: cutter.port } };
  /** Publishes over connections that are cut later and later, until one completes; returns what readers saw. */
  const publishCut = async (step: number) => {
    const seen: string[] = [];
    const failures: unknown[] = [];
    for (let bytes = 500; ; bytes += step) {
      cutter.cutAfter(bytes);
      const end = await publishTo(file, through).catch((error: unknown) => void failures.push(error));
      if (end !== undefined) break;
      seen.push(JSON.stringify(await visibleIn(database)));
    }
    expect(failures.filter((each) => !(each instanceof OperatorError))).toEqual([]);
    expect(failures.length).toBeGreaterThan(3);
    return new Set(seen);
  };
  const stateNow = async () => JSON.stringify(await visibleIn(database));
  const none = await stateNow();
  const onTheWay = await publishCut(11_000);
  const first = await stateNow();
  // A commit may succeed even if its response was cut off.
  expect([...onTheWay].filter((each) => each !== none && each !== first)).toEqual([]);
  expect(await checkIn(file, destination)).toMatchObject({ equal: true });
  for (const id of [3, 4, 5, 6]) sandbox.control.update('users', id, { first_name: 'Another' });
  sandbox.control.remove('emails', 5);
  await next();
  const onTheSecond = await publishCut(3_000);
  const second = await stateNow();
  expect(second).not.toBe(first);
  expect([...onTheSecond].filter((each) => each !== first && each !== second)).toEqual([]);
  expect(await checkIn(file, destination)).toMatchObject({ equal: true, waiting: 0 });
});

test('a publication that was stopped half-way leaves nothing, and the next one has what changed meanwhile', async () => {
  const { sandbox, file, next } = await mirrored();
  const database = await temporaryDatabase();
  const destination = destinationIn(database);
  const stopping = new AbortController();
  const onProgress = (rows: number) => {
    if (rows > 70) stopping.abort(new Error('stopped'));
  };
  await expect(publishTo(file, destination, { signal: stopping.signal, onProgress })).rejects.toThrow('stopped');
  expect((await database.query(`SELECT 1 FROM pg_namespace WHERE nspname = 'mirror'`)).rows).toEqual([]);
  sandbox.control.remove('users', 9);
  await next();
  await publishTo(file, destination);
  // A further include comes with the changes.
  sandbox.control.advanceClock(hourMs);
  await sync(sandbox, file, { includes: { ...includes, users: [...includes.users, 'devices'] }, mode: 'full' });
  expect(await publishTo(file, destination)).toMatchObject({ mode: 'changes' });
  expect(await checkIn(file, destination)).toMatchObject({ equal: true, waiting: 0 });
});

test('a publication that is stopped while it connects does not block the next one', async () => {
  const file = mirrorFile((mirror) => insertRows(mirror, 'users', madeUpUsers(10)));
  const destination = destinationIn(await temporaryDatabase());
  const stopping = new AbortController();
  const stopped = publishTo(file, destination, { signal: stopping.signal });
  stopping.abort(new Error('stopped'));
  await expect(stopped).rejects.toThrow('stopped');
  expect(await publishTo(file, destination)).toMatchObject({ tables: { users: { written: 10 } } });
});

test('a publication ends if the mirror is damaged, and readers still see the old state', async () => {
  const file = mirrorFile((mirror) => insertRows(mirror, 'users', madeUpUsers(5_000)));
  const database = await temporaryDatabase();
  const destination = destinationIn(database);
  await publishTo(file, destination);
  const before = await visibleIn(database);
  const pages = new SqliteDatabase(file);
  const leaf = pages.prepare<[], number>(
    `SELECT pgoffset FROM dbstat WHERE name = 'users' AND pagetype = 'leaf' ORDER BY path DESC LIMIT 1`,
  );
  const place = leaf.pluck().get() ?? 0;
  pages.close();
  const handle = openSync(file, 'r+');
  writeSync(handle, Buffer.alloc(4_096, 0xff), 0, 4_096, place);
  closeSync(handle);
  await expect(publishTo(file, destination, { whole: true })).rejects.toThrow(/mirror .* is damaged/);
  expect(await visibleIn(database)).toEqual(before);
  const { rows } = await database.query(
    `SELECT 1 FROM pg_stat_activity WHERE application_name = 'admin-mirror publish'`,
  );
  expect(rows).toEqual([]);
});

test('a publication shows a single state, whatever a sync writes meanwhile', async () => {
  const file = mirrorFile((mirror) => insertRows(mirror, 'users', madeUpUsers(300)));
  const database = await temporaryDatabase();
  const destination = destinationIn(database);
  let isChanged = false;
  const onProgress = () => {
    if (isChanged) return;
    isChanged = true;
    changed(
      file,
      `UPDATE users SET status = 'of later'; DELETE FROM users WHERE id = 7; INSERT INTO coupons (id, _first_seen_at, _changed_at) VALUES (1, '2026', '2026')`,
    );
  };
  await publishTo(file, destination, { onProgress });
  const found = async () =>
    (
      await database.query(
        `SELECT count(*) AS users, count(*) FILTER (WHERE status = 'of later') AS later, (SELECT count(*) FROM mirror.coupons) AS coupons FROM mirror.users`,
      )
    ).rows[0] as unknown;
  expect(await found()).toEqual({ users: '300', later: '0', coupons: '0' });
  expect(await checkIn(file, destination)).toMatchObject({ equal: true, waiting: 301 });
  await publishTo(file, destination);
  expect(await found()).toEqual({ users: '299', later: '299', coupons: '1' });
});

test('a forgotten person disappears from all published tables and their history with the next publication', async () => {
  const { file } = await mirrored();
  const database = await temporaryDatabase();
  const destination = destinationIn(database);
  await publishTo(file, destination);
  const textsIn = async () => {
    const { rows } = await database.query(
      `SELECT relname AS name FROM pg_class WHERE relnamespace = 'mirror'::regnamespace AND relkind IN ('r', 'v')`,
    );
    const found = new Set<string>();
    for (const { name } of rows as { name: string }[]) {
      const all = await database.query(`SELECT t::text AS row FROM mirror."${name}" AS t`);
      const names = await database.query(
        `SELECT attname FROM pg_attribute WHERE attrelid = 'mirror."${name}"'::regclass`,
      );
      const text = JSON.stringify([all.rows, names.rows]);
      for (const each of personalTexts) if (text.includes(each)) found.add(`${name}: ${each}`);
    }
    return [...found];
  };
  expect((await textsIn()).length).toBeGreaterThan(10);
  const store = openForgetStore(file, systemClock, 50);
  await forgetUser({ store, journal: 'none', clock: systemClock }, person).finally(() => store.close());
  await publishTo(file, destination);
  expect(await textsIn()).toEqual([]);
  expect(await checkIn(file, destination)).toMatchObject({ equal: true, waiting: 0 });
});

test('a publication also removes pruned versions, tombstones, and rows whose deletion is no longer recorded', async () => {
  const { file } = await mirrored();
  const database = await temporaryDatabase();
  const destination = destinationIn(database);
  await publishTo(file, destination);
  const count = async (table: string) =>
    (await database.query(`SELECT count(*)::int AS rows FROM mirror.${table}`)).rows[0] as unknown;
  expect(await count('users_history')).toEqual({ rows: 1 });
  // Like pruning.
  changed(
    file,
    `UPDATE mirror_history SET begins_at = '2030-01-01T00:00:00.000000Z';
     DELETE FROM users_history WHERE valid_to < '2030-01-01'`,
  );
  expect(await publishTo(file, destination)).toMatchObject({ mode: 'changes' });
  expect(await count('users_history')).toEqual({ rows: 0 });
  expect(await checkIn(file, destination)).toMatchObject({ equal: true });
  // A mirror that was idle for longer than tombstones are kept.
  changed(
    file,
    `DELETE FROM users WHERE id = 5;
     UPDATE mirror_cursor SET deletions_from = seq + 1, seq = seq + 1;
     DELETE FROM mirror_deletions`,
  );
  expect(await publishTo(file, destination)).toMatchObject({ mode: 'whole' });
  expect(await count('users')).toEqual({ rows: 59 });
  expect(await count('mirror_deletions')).toEqual({ rows: 0 });
  expect(await checkIn(file, destination)).toMatchObject({ equal: true });
});

test('missing columns are added, others are kept with the views on them, and one of another type is refused', async () => {
  const { file } = await mirrored();
  const database = await temporaryDatabase();
  const destination = destinationIn(database);
  await publishTo(file, destination);
  // The state after an older program without the column language, and after changes by analysts.
  await database.query(`
    ALTER TABLE mirror.users DROP COLUMN language;
    ALTER TABLE mirror.users ADD COLUMN segment text DEFAULT 'ours';
    CREATE VIEW mirror.rich AS SELECT id, balance FROM mirror.users WHERE balance > 10`);
  const warnings: string[] = [];
  await publishTo(file, destination, { onWarning: (text) => warnings.push(text) });
  expect(await checkIn(file, destination)).toMatchObject({ equal: true });
  const { rows } = await database.query(
    `SELECT count(language) > 0 AS languages, count(segment) AS segments, (SELECT count(*) > 0 FROM mirror.rich) AS rich FROM mirror.users`,
  );
  expect(rows).toEqual([{ languages: true, segments: '60', rich: true }]);
  expect(warnings).toEqual([]);
  await database.query('ALTER TABLE mirror.users ALTER COLUMN is_subscribed TYPE text');
  await expect(publishTo(file, destination)).rejects.toThrow('users.is_subscribed has the type text instead of bigint');
});

test('--check names rows that others changed, and --full repairs them', async () => {
  const { file } = await mirrored();
  const database = await temporaryDatabase();
  const destination = destinationIn(database);
  await publishTo(file, destination);
  await database.query(`
    UPDATE mirror.users SET balance = balance + 1 WHERE id = 5;
    UPDATE mirror.users SET balance = balance * 1.00 WHERE id = 6;
    DELETE FROM mirror.emails WHERE id = 9;
    INSERT INTO mirror.coupons (id, code) VALUES (99999, 'FREE');
    UPDATE mirror.user_orders SET record_json = '{}' WHERE user_id = 7;
    ALTER TABLE mirror.users_history ALTER COLUMN id DROP NOT NULL;
    INSERT INTO mirror.users_history (_seq) VALUES (-1)`);
  const found = await checkIn(file, destination);
  expect(found.equal).toBe(false);
  const unequal = Object.entries(found.tables).flatMap(([name, { equal, missing, extra, different }]) =>
    equal ? [] : [[name, missing, extra, different]],
  );
  expect(unequal).toEqual([
    ['users', [], [], ['5', '6']],
    ['emails', ['9'], [], []],
    ['coupons', [], ['99999'], []],
    ['users_history', [], ['-1'], []],
    ['user_orders', [], [], [expect.stringMatching(/^7 /)]],
  ]);
  // Publishing changes does not touch these rows.
  await publishTo(file, destination);
  expect((await checkIn(file, destination)).equal).toBe(false);
  await publishTo(file, destination, { whole: true });
  expect(await checkIn(file, destination)).toMatchObject({ equal: true });
});

test('a rebuilt mirror replaces the published one, and a mirror of another server is refused', async () => {
  const { sandbox, file } = await mirrored();
  const destination = destinationIn(await temporaryDatabase());
  await publishTo(file, destination);
  sandbox.control.remove('users', 12);
  const anew = `${temporaryFolder()}/mirror.db`;
  await sync(sandbox, anew, { includes });
  expect(await publishTo(anew, destination)).toMatchObject({ mode: 'whole' });
  expect(await checkIn(anew, destination)).toMatchObject({ equal: true });
  const other = await startSandbox();
  const foreign = `${temporaryFolder()}/mirror.db`;
  await sync(other, foreign);
  await expect(publishTo(foreign, destination)).rejects.toThrow(
    `holds the mirror of ${sandbox.url}, and this one is of ${other.url}`,
  );
});

test('a database that cannot be used is named with the reason, and never with the password', async () => {
  const file = mirrorFile();
  const database = await temporaryDatabase();
  const destination = destinationIn(database);
  const failure = async (other: Partial<typeof destination>) => {
    const error: unknown = await publishTo(file, { ...destination, ...other }).catch((thrown: unknown) => thrown);
    if (!(error instanceof OperatorError)) throw error;
    expect(`${error.message} ${error.advice}`).not.toContain(database.password);
    return `${error.exitCode}: ${error.message}`;
  };
  const { address } = destination;
  expect(await failure({ password: undefined })).toMatch(/^2: cannot use the schema mirror of postgresql:/);
  expect(await failure({ address: { ...address, port: 9 } })).toMatch(/^4: cannot reach/);
  expect(await failure({ address: { ...address, database: 'absent' } })).toMatch(
    /^2: cannot use .*"absent" does not exist/,
  );
  expect(await failure({ address: { ...address, tls: 'verified' } })).toMatch(/^2: cannot use .*SSL/);
  const parsed = parseDatabaseAddress('postgresql://me@db.example.com/shop');
  expect(parsed?.tls).toBe('verified');
  expect(parseDatabaseAddress('postgresql://me:secret@db.example.com/shop')).toBeUndefined();
});
