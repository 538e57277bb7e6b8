import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createHash, sign } from 'node:crypto';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { CertificateHead, CertifiedDay, CertifiedWindow } from '../../src/data/certificate.ts';
import { checkCertificate } from '../../src/data/check-certificate.ts';
import { canonical, type Json } from '../../src/journal/chain.ts';
import { openCheckingKey } from '../../src/journal/signing-key.ts';
import { dayMs, hourMs } from '../../src/model/time.ts';
import { Random } from '../../src/sandbox/random.ts';
import { openMirrorForReading } from '../../src/store/open.ts';
import { quoteName } from '../../src/store/schema.ts';
import { invoke } from '../support/invoke.ts';
import { mirroredFolder, sync } from '../support/mirror.ts';
import { isSoak, sample } from '../support/part.ts';

interface Certificate {
  readonly certificate: CertificateHead;
  readonly windows: readonly CertifiedWindow[];
  readonly signature: unknown;
}

const pages = { pageSize: 10, windowPages: 2 } as const;

/** A complete mirror of 120 users in several windows, with a certificate of it. */
async function certified() {
  const world = await mirroredFolder({ users: 120 }, pages);
  const run = async (...argv: string[]) => {
    const { code, stdout, stderr } = await invoke([...argv, '--json'], { folder: world.folder });
    return { code, stderr, report: stdout === '' ? undefined : (JSON.parse(stdout) as never) };
  };
  const certify = async (name: string, ...argv: string[]) => {
    const { code, stderr } = await run('certify', '-o', name, ...argv);
    if (code !== 0) throw new Error(stderr);
    return read(`${world.folder}/${name}`);
  };
  const check = async (name: string, ...argv: string[]) => run('certify', '--check', name, ...argv);
  const night = async () => {
    world.sandbox.control.advanceClock(hourMs);
    expect((await sync(world.sandbox, world.file, pages)).report.status).toBe('complete');
  };
  return { ...world, run, certify, check, night, first: await certify('first.json') };
}

function read(path: string): Certificate {
  return JSON.parse(readFileSync(path, 'utf8')) as Certificate;
}

function change(file: string, ...statements: readonly string[]): void {
  const database = new SqliteDatabase(file);
  for (const sql of statements) expect(database.prepare(sql).run().changes).toBeGreaterThan(0);
  database.close();
}

describe('A certificate', () => {
  test('lists days, records, total and time of each window, and confirms that the mirror or a copy still holds them', async () => {
    const { first, folder, check, run, sandbox } = await certified();
    const { users } = first.certificate.resources;
    expect(users).toMatchObject({ rows: 120, server_total: 120, kept_out: 0, capabilities: { page_size: 10 } });
    const own = first.windows.filter(({ resource }) => resource === 'users');
    expect([own.length, own.at(0)?.from, own.at(-1)?.to]).toEqual([users?.windows, '1000-01-01', '3000-01-01']);
    expect(own.length).toBeGreaterThan(4);
    // The range that was requested may be wider than the window.
    expect(own.every(({ server_total: total, rows }) => total !== null && total >= rows)).toBe(true);
    const days = own.flatMap(({ days: each }) => each.map(([day, rows]) => `${day} ${rows}`));
    const created = sandbox.control.dump('users').map((user) => String(user['created_at']).slice(0, 10));
    expect(days).toEqual(
      [...new Set(created)].sort().map((day) => `${day} ${created.filter((each) => each === day).length}`),
    );
    expect(own.every(({ fresh_as_of: at }) => at !== null && at >= (users?.fresh_as_of ?? ''))).toBe(true);
    // It holds nothing about people.
    const text = readFileSync(`${folder}/first.json`, 'utf8');
    for (const user of sandbox.control.dump('users')) expect(text).not.toContain(String(user['email']));
    expect((await run('snapshot', 'copy.db')).code).toBe(0);
    for (const argv of [[], ['--db', 'copy.db']]) {
      expect(await check('first.json', ...argv)).toMatchObject({
        code: 0,
        report: { status: 'genuine', problems: [], mirror: { status: 'same', read_again: false }, not_compared: null },
      });
    }
    const { stdout } = await invoke(['certify', '--check', 'first.json'], { folder });
    expect(stdout).toMatch(
      /^genuine {3}first\.json\nusers {5}120 rows in \d+ windows, .*\n(?:.*\n)+mirror {4}holds the same rows\n$/,
    );
  });

  test('is not written for resources that are incomplete', { tags: 'full' }, async () => {
    const { folder, file, sandbox, run, certify } = await certified();
    sandbox.control.faultNext({ fault: 'error_500', times: 10_000, match: { path: '/api/v1/emails' } });
    await sync(sandbox, file, { ...pages, mode: 'full' });
    const { code, stderr } = await run('certify', '-o', 'none.json');
    expect([code, existsSync(`${folder}/none.json`)]).toEqual([5, false]);
    expect(stderr).toMatch(/no certificate was written, because the mirror is not complete: emails: /);
    expect(stderr).toContain('certify users packages coupons');
    const some = await certify('some.json', 'users', 'packages');
    expect(Object.keys(some.certificate.resources)).toEqual(['packages', 'users']);
  });

  test.each([
    ['was changed', `UPDATE users SET balance = balance + 1 WHERE id = 5`, /rows of .* are not as they were read/],
    ['was removed', 'DELETE FROM users WHERE id = 5', /the mirror has 119 records, and the last run left 120/],
    ['left its window', `UPDATE users SET created_at = NULL WHERE id = 5`, /it has rows that no window owns/],
  ])('is not written if a row %s by other means', { tags: 'full' }, async (_, sql, problem) => {
    const { file, night, run } = await certified();
    await night();
    change(file, sql);
    const { code, stderr } = await run('certify', '-o', 'none.json');
    expect([code, stderr]).toEqual([5, expect.stringMatching(problem)]);
  });

  test('is not written while a sync holds the lock', { tags: 'full' }, async () => {
    const { file, folder, run } = await certified();
    const { openMirrorStore } = await import('../../src/mirror/store/mirror-store.ts');
    const store = openMirrorStore(file);
    onTestFinished(() => store.close());
    store.acquireLock('sync', 'another', 'sync');
    expect((await run('certify', '-o', 'none.json')).code).toBe(7);
    expect(existsSync(`${folder}/none.json`)).toBe(false);
    store.releaseLock('sync', 'another');
  });

  test('covers related records', { tags: 'full' }, async () => {
    const { file, sandbox, certify, check } = await certified();
    const included = { ...pages, includes: { users: ['orders'] } } as const;
    sandbox.control.setRelated('users', 7, 'orders', [{ id: 1, status: 'active' }]);
    expect((await sync(sandbox, file, included)).report.status).toBe('complete');
    const made = await certify('orders.json');
    expect(made.certificate.resources.users?.relations).toEqual(['orders']);
    expect((await check('orders.json')).code).toBe(0);
    change(file, `UPDATE user_orders SET record = json_set(record, '$.status', 'cancelled') WHERE user_id = 7`);
    const day = String(sandbox.control.get('users', 7)?.['created_at']).slice(0, 10);
    expect(await check('orders.json')).toMatchObject({
      code: 6,
      report: { mirror: { windows: [{ resource: 'users', days: [{ day }] }] } },
    });
  });
});

describe('A change', () => {
  // All in one process, so that a thousand of them take seconds.
  const tampering = Array.from({ length: isSoak ? 1_000 : 240 }, (_, seed) => seed);

  test('to the mirror or to a certificate is always found', { tags: 'full', timeout: 300_000 }, async () => {
    const { file, folder, night, certify } = await certified();
    await night();
    const { windows } = await certify('now.json', 'users');
    const text = readFileSync(`${folder}/now.json`);
    const key = openCheckingKey(`${folder}/data/receipt.pub`);
    const { signal } = new AbortController();
    const database = new SqliteDatabase(file);
    const mirror = openMirrorForReading(file);
    onTestFinished(() => {
      mirror.close();
      database.close();
    });
    const checkNow = () => checkCertificate(`${folder}/now.json`, key, mirror, signal);
    const ownerOf = (day: unknown) =>
      windows.find(({ resource, from, to }) => resource === 'users' && String(day) >= from && String(day) < to)?.from;
    const missed: string[] = [];
    const chosen = sample(tampering, 30);
    for (const seed of chosen) {
      const random = new Random(seed);
      if (seed % 3 === 0) {
        const bytes = Buffer.from(text);
        const at = random.below(bytes.length);
        bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
        writeFileSync(`${folder}/now.json`, bytes);
        if ((await checkNow()).status !== 'refused') missed.push(`${seed}: byte ${at}`);
        writeFileSync(`${folder}/now.json`, text);
        continue;
      }
      // The check would not see an open transaction of another connection, so each change is made, found and undone.
      const { words, undo, day } = seed % 3 === 1 ? alterRow(database, random) : alterWindow(database, random);
      const { mirror: found } = await checkNow();
      const named = found?.windows.map(({ from }) => from) ?? [];
      if (found?.status !== 'different') missed.push(`${seed}: ${words}`);
      else if (day !== undefined && !named.includes(ownerOf(day) ?? day)) missed.push(`${seed}: ${words}, not named`);
      undo();
    }
    expect(missed).toEqual([]);
    expect((await checkNow()).mirror?.status).toBe('same');
  });

  interface Altered {
    readonly words: string;
    /** The day of the row before the change. */
    readonly day?: string;
    readonly undo: () => void;
  }

  /** Changes one cell, or removes or adds a row. */
  function alterRow(database: SqliteDatabase.Database, random: Random): Altered {
    const ids = database.prepare<[], number>('SELECT id FROM users ORDER BY id').pluck().all();
    const id = ids[random.below(ids.length)] ?? 0;
    const row = database.prepare<[number], Record<string, unknown>>('SELECT * FROM users WHERE id = ?').get(id) ?? {};
    const names = Object.keys(row).filter((name) => !/^_(?:first_seen_at|changed_at|seq)$/.test(name));
    const day = String(row['created_at']).slice(0, 10);
    const put = (values: Readonly<Record<string, unknown>>, as: 'INSERT' | 'REPLACE' = 'INSERT') =>
      database
        .prepare(
          `${as} INTO users (${Object.keys(values).map(quoteName).join(', ')}) VALUES (${Object.keys(values).fill('?').join(', ')})`,
        )
        .run(...Object.values(values));
    const remove = database.prepare('DELETE FROM users WHERE id = ?');
    const kind = random.below(10);
    if (kind === 0) {
      remove.run(id);
      return { words: `row ${id} removed`, day, undo: () => void put(row) };
    }
    if (kind === 1) {
      put({ ...row, id: 100_000 + random.below(1_000), _seq: Number.MAX_SAFE_INTEGER });
      return {
        words: `row ${id} twice`,
        day,
        undo: () => void remove.run(database.prepare('SELECT max(id) FROM users').pluck().get()),
      };
    }
    const name = names[random.below(names.length)] ?? '';
    const old = row[name];
    const changed = typeof old === 'number' ? old + 1 + random.below(9) : old === null ? null : `${old as string}x`;
    // A null without a replacement of its type becomes the text "null".
    const value = changed ?? (/_at$|name$|^(?:avatar|data|_extra|email)$/.test(name) ? 'null' : 1);
    if (name === 'id') {
      const to = 200_000 + random.below(1_000);
      database.prepare('UPDATE users SET id = ? WHERE id = ?').run(to, id);
      return {
        words: `id ${id}`,
        day,
        undo: () => void database.prepare('UPDATE users SET id = ? WHERE id = ?').run(id, to),
      };
    }
    database.prepare(`UPDATE users SET ${quoteName(name)} = ? WHERE id = ?`).run(value, id);
    return { words: `${name} of ${id}`, day, undo: () => void put(row, 'REPLACE') };
  }

  /** Changes what the mirror stores about one of its windows. */
  function alterWindow(database: SqliteDatabase.Database, random: Random): Altered {
    type Row = { resource: string; from_day: string; to_day: string } & Record<string, unknown>;
    const rows = database.prepare<[], Row>("SELECT * FROM mirror_windows WHERE resource = 'users'").all();
    const row = rows[random.below(rows.length)];
    if (row === undefined) throw new Error('no windows');
    const { resource, from_day: from } = row;
    const set = (name: string, value: unknown, at: unknown): void =>
      void database
        .prepare(`UPDATE mirror_windows SET ${name} = ? WHERE resource = ? AND from_day = ?`)
        .run(value, resource, at);
    const changes = {
      server_total: Number(row['server_total']) + 1 + random.below(9),
      fresh_as_of: `${String(row['fresh_as_of']).slice(0, -2)}${random.below(10)}0Z`,
      to_day: `${row.to_day.slice(0, 3)}${(Number(row.to_day[3]) + 1 + random.below(8)) % 10}-12-31`,
      from_day: `0${from.slice(1, 4)}-01-02`,
      state: 'unsettled',
    };
    const names = Object.keys(changes) as (keyof typeof changes)[];
    const name = names[random.below(names.length)] ?? 'state';
    // The random digit may be the one that was there.
    const value = changes[name] === row[name] ? `${changes[name]}x` : changes[name];
    database.pragma('foreign_keys = OFF');
    database.pragma('ignore_check_constraints = ON');
    set(name, value, from);
    return {
      words: `${name} of ${resource} ${from}`,
      undo: () => set(name, row[name], name === 'from_day' ? value : from),
    };
  }

  test('that is signed again with the same key still contradicts itself', { tags: 'full' }, async () => {
    const { folder, first, check } = await certified();
    const key = readFileSync(`${folder}/data/receipt.key`, 'utf8');
    const resigned = (certificate: Certificate): string => {
      const name = 'resigned.json';
      writeFileSync(`${folder}/${name}`, written(certificate, key));
      return name;
    };
    expect(await check(resigned(first))).toMatchObject({ code: 0, report: { status: 'genuine' } });
    const [window, ...others] = first.windows.filter(({ days }) => days.length > 0);
    if (window === undefined) throw new Error('no window has days');
    const rest = first.windows.filter((each) => each !== window);
    const days: readonly CertifiedDay[] = window.days.map(([day, rows, hash], at) => [
      day,
      at === 0 ? rows + 1 : rows,
      hash,
    ]);
    for (const windows of [rest, [{ ...window, days }, ...rest], [...others].reverse()]) {
      const { code, report } = await check(resigned({ ...first, windows }));
      expect([code, report]).toEqual([6, expect.objectContaining({ status: 'refused', mirror: null })]);
    }
  });
});

describe('Two certificates', () => {
  test(
    'show on which days two nights differ, even if windows were joined or split between them',
    { tags: 'full' },
    async () => {
      const { sandbox, file, night, certify, run, first } = await certified();
      const users = sandbox.control.dump('users');
      const [one = {}, two = {}, three = {}] = [users[3], users[50], users[90]];
      sandbox.control.update('users', Number(one['id']), { first_name: 'Another' });
      sandbox.control.remove('users', Number(two['id']));
      sandbox.control.insert('users', { created_at: three['created_at'] as never });
      sandbox.control.advanceClock(10 * dayMs);
      // Larger windows, some of which are joined.
      expect((await sync(sandbox, file, { ...pages, windowPages: 40, mode: 'full' })).report.status).toBe('complete');
      const second = await certify('second.json');
      expect(second.certificate.resources.users?.windows).toBeLessThan(first.certificate.resources.users?.windows ?? 0);
      const { code, report } = await run('certify', '--compare', 'second.json', 'first.json');
      const { status, windows } = report as unknown as {
        status: string;
        windows: { resource: string; days: { day: string }[] }[];
      };
      expect([code, status]).toEqual([0, 'different']);
      const dayOf = (user: typeof one) => String(user['created_at']).slice(0, 10);
      const found = windows
        .filter(({ resource }) => resource === 'users')
        .flatMap(({ days }) => days.map(({ day }) => day));
      expect(found).toEqual([...new Set([one, two, three].map(dayOf))].sort());
      await night();
      await certify('third.json');
      expect((await run('certify', '--compare', 'second.json', 'third.json')).report).toMatchObject({
        status: 'same',
        windows: [],
      });
    },
  );

  test('are not compared if one was changed or only one is given', { tags: 'full' }, async () => {
    const { folder, run, first } = await certified();
    writeFileSync(
      `${folder}/other.json`,
      readFileSync(`${folder}/first.json`, 'utf8').replace(first.certificate.root, '0'.repeat(64)),
    );
    const changed = await run('certify', '--compare', 'first.json', 'other.json');
    expect([changed.code, changed.stderr]).toEqual([2, expect.stringMatching(/other\.json is not as it was signed/)]);
    expect((await run('certify', '--compare', 'first.json')).stderr).toMatch(/takes two certificates, not 1/);
    expect((await run('certify', '--key', 'x.pub')).stderr).toMatch(/Name a certificate with --check or --compare/);
    expect((await run('certify', 'users', '--check', 'first.json')).stderr).toMatch(
      /a certificate is always checked as a whole/,
    );
  });
});

describe('The salt of a certificate', () => {
  test(
    'belongs to its mirror: without it the same rows have other hashes and are not compared',
    { tags: 'full' },
    async () => {
      const { folder, check, run, first } = await certified();
      const other = await certified();
      expect(other.first.certificate.salt_id).not.toBe(first.certificate.salt_id);
      const daysOf = ({ windows }: Certificate) => windows.flatMap(({ days }) => days);
      const rows = (certificate: Certificate) => daysOf(certificate).map(([day, count]) => `${day} ${count}`);
      expect(rows(other.first)).toEqual(rows(first));
      const hashes = new Set(daysOf(first).map(([, , hash]) => hash));
      expect(daysOf(other.first).filter(([, , hash]) => hashes.has(hash))).toEqual([]);
      const key = ['--key', `${folder}/data/receipt.pub`];
      copyFileSync(`${folder}/first.json`, `${other.folder}/theirs.json`);
      const there = await other.check('theirs.json', ...key);
      expect([there.code, there.report]).toEqual([5, expect.objectContaining({ status: 'genuine', mirror: null })]);
      expect(await check('first.json', '--db', 'nowhere.db')).toMatchObject({
        code: 0,
        report: { status: 'genuine', not_compared: 'there is no mirror' },
      });
      expect((await run('snapshot', 'masked.db', '--anonymise')).code).toBe(0);
      expect((await check('first.json', '--db', 'masked.db')).code).toBe(5);
      const masked = new SqliteDatabase(`${folder}/masked.db`, { readonly: true });
      onTestFinished(() => void masked.close());
      const kept = masked.prepare('SELECT name FROM mirror_capabilities').pluck().all();
      expect(kept.filter((name) => String(name).startsWith('certificate'))).toEqual([]);
    },
  );

  test(
    'changes when a person is forgotten, so that old certificates cannot confirm a guess',
    { tags: 'full' },
    async () => {
      const { run, check, certify, night, first } = await certified();
      expect((await run('forget', '5', '--yes')).code).toBe(0);
      expect((await check('first.json')).code).toBe(5);
      await night();
      const second = await certify('second.json');
      expect(second.certificate.resources.users).toMatchObject({ rows: 119, kept_out: 1, server_total: 120 });
      expect(second.certificate.salt_id).not.toBe(first.certificate.salt_id);
      const { code, stderr } = await run('certify', '--compare', 'first.json', 'second.json');
      expect([code, stderr]).toEqual([5, expect.stringMatching(/different salts/)]);
    },
  );
});

describe('An export', () => {
  test(
    'carries the root of a certificate of this exact state, until a run begins or a person is forgotten',
    { tags: 'full' },
    async () => {
      const { folder, run, certify, night, first } = await certified();
      const exported = async () => {
        expect((await run('export', '--all', '-o', 'set')).code).toBe(0);
        return (JSON.parse(readFileSync(`${folder}/set/manifest.json`, 'utf8')) as { certificate: unknown })
          .certificate;
      };
      const single = async () =>
        (await run('export', 'users', '-o', 'users.csv')).report as unknown as { certificate: unknown };
      const { root, written_at: at } = first.certificate;
      const carried = { root, written_at: at, resources: ['users', 'packages', 'emails', 'coupons'] };
      expect(await exported()).toEqual(carried);
      expect((await single()).certificate).toEqual(carried);
      await night();
      expect(await exported()).toBeNull();
      expect((await single()).certificate).toBeNull();
      const { certificate } = await certify('second.json');
      expect(await exported()).toMatchObject({ root: certificate.root });
      expect((await run('forget', '5', '--yes')).code).toBe(0);
      expect(await exported()).toBeNull();
    },
  );
});

/** The document in the form of a certificate, with a valid signature. */
function written({ certificate, windows }: Certificate, key: string): string {
  const digest = createHash('sha256')
    .update(canonical({ certificate, windows } as unknown as Json))
    .digest('hex');
  const value = sign(null, Buffer.from(JSON.stringify({ certificate: digest })), key).toString('hex');
  const lines = windows.map((each) => canonical(each as unknown as Json)).join(',\n');
  return `{"certificate":${canonical(certificate as unknown as Json)},"windows":[\n${lines}\n],"signature":${canonical({ algorithm: 'Ed25519', value })}}\n`;
}
