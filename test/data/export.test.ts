import { gunzipSync } from 'node:zlib';
import { describe, expect, onTestFinished, test } from 'vitest';
import { exportChunks, type ExportRequest, type FileForm } from '../../src/data/export.ts';
import { exportFormats } from '../../src/data/formats.ts';
import type { TableRequest } from '../../src/data/selection.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { type ReadingStore, openReadingStore } from '../../src/data/reading.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';

const never = new AbortController().signal;

function openStore(file: string): ReadingStore {
  const store = openReadingStore(file);
  onTestFinished(() => store.close());
  return store;
}

const csv: FileForm = { format: 'csv', raw: false, compression: null, bom: false };

interface Asked extends Partial<Omit<ExportRequest, 'form'>> {
  readonly table?: Partial<TableRequest>;
  readonly form?: Partial<FileForm>;
}

function request({ table, form, ...rest }: Asked = {}): ExportRequest {
  return {
    what: { relation: 'users', meta: false, ...table },
    form: { ...csv, ...form },
    ...rest,
  };
}

async function bytesOf(store: ReadingStore, asked: ExportRequest): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of exportChunks(store, asked, { signal: never, onRows: () => {}, onWarning: () => {} }))
    parts.push(part);
  return Buffer.concat(parts);
}

async function textOf(store: ReadingStore, asked: ExportRequest): Promise<string> {
  return (await bytesOf(store, asked)).toString('utf8');
}

/** Whether no reader holds an older state, so that the WAL can be truncated. */
function isReleased(file: string): boolean {
  const writer = openMirrorFile(file);
  writer.pragma('busy_timeout = 1000');
  writer.exec("UPDATE users SET status = 'later' WHERE id = 1");
  const [result] = writer.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
  writer.close();
  return result?.busy === 0;
}

function smallMirror(): ReadingStore {
  return openStore(
    mirrorFile((database) => {
      insertRows(database, 'users', [
        { id: 2n, username: 'b', balance: 12.5, data: '{"a":1}', _extra: '{"vip":true}' },
        { id: 1n, username: '=a', balance: -1n, first_name: '' },
      ]);
      database.exec('CREATE VIEW named AS SELECT id, username FROM users ORDER BY username DESC');
    }),
  );
}

describe('an export', () => {
  const columns = { columns: ['id', 'username', 'first_name', 'balance'] };

  test('has a header, and rows by id', async () => {
    expect(await textOf(smallMirror(), request({ table: columns }))).toBe(
      `id,username,first_name,balance\n1,'=a,"",-1\n2,b,,12.5\n`,
    );
  });

  test('has all data columns, and mirror columns if requested', async () => {
    const store = smallMirror();
    const [plain = ''] = (await textOf(store, request())).split('\n');
    expect(plain.split(',')).toHaveLength(17);
    expect(plain).not.toContain(',_');
    const [meta = ''] = (await textOf(store, request({ table: { meta: true } }))).split('\n');
    expect(meta).toBe(`${plain},_extra,_first_seen_at,_changed_at`);
    expect(await textOf(store, request({ table: { columns: ['_extra', 'id'], where: 'id = 2' } }))).toBe(
      '_extra,id\n"{""vip"":true}",2\n',
    );
  });

  test.each<[string, Asked, string]>([
    ['TSV', { form: { format: 'tsv' } }, `id\tusername\tfirst_name\tbalance\n1\t'=a\t""\t-1\n2\tb\t\t12.5\n`],
    ['without the guard', { form: { raw: true } }, `id,username,first_name,balance\n1,=a,"",-1\n2,b,,12.5\n`],
    [
      'with a byte order mark',
      { form: { bom: true } },
      `\uFEFFid,username,first_name,balance\n1,'=a,"",-1\n2,b,,12.5\n`,
    ],
    [
      'JSON lines',
      { form: { format: 'jsonl' } },
      '{"id":1,"username":"=a","first_name":"","balance":-1}\n{"id":2,"username":"b","first_name":null,"balance":12.5}\n',
    ],
  ])('can be %s', async (_, part, text) => {
    expect(await textOf(smallMirror(), request({ table: columns, ...part }))).toBe(text);
  });

  test('can be compressed', async () => {
    const store = smallMirror();
    const bytes = await bytesOf(store, request({ form: { compression: 'gzip' } }));
    expect(gunzipSync(bytes).toString()).toBe(await textOf(store, request()));
  });

  test('applies a condition and an order', async () => {
    const table = { columns: ['id'], where: 'balance IS NOT NULL', order: 'id DESC' };
    expect(await textOf(smallMirror(), request({ table }))).toBe('id\n2\n1\n');
  });

  test('keeps the order of a view, and has only a header for an empty table', async () => {
    const store = smallMirror();
    expect(await textOf(store, request({ table: { relation: 'named' } }))).toBe(`id,username\n2,b\n1,'=a\n`);
    expect(await textOf(store, request({ table: { relation: 'coupons', columns: ['id', 'code'] } }))).toBe('id,code\n');
    expect(await textOf(store, request({ table: { relation: 'mirror_windows' } }))).toMatch(/^resource,from_day,.*\n$/);
  });

  test('writes the result of a query, with its column names and JSON', async () => {
    const store = smallMirror();
    const what = { sql: 'SELECT id, username AS "=name", NULL AS none, \'\' AS empty FROM users ORDER BY id' };
    expect(await textOf(store, request({ what }))).toBe(`id,'=name,none,empty\n1,'=a,,""\n2,b,,""\n`);
    expect(
      await textOf(
        store,
        request({ what: { sql: 'SELECT data AS d FROM users WHERE id = 2' }, form: { format: 'jsonl' } }),
      ),
    ).toBe('{"d":{"a":1}}\n');
  });

  test.each<[Partial<TableRequest>, string, string]>([
    [{ relation: 'usrs' }, 'no table or view "usrs"', 'Did you mean "users"?'],
    [{ columns: ['id', 'emial'] }, 'table users has no column "emial"', 'Did you mean "email"?'],
    [{ relation: 'sqlite_schema' }, 'no table or view "sqlite_schema"', 'Known: '],
  ])('names the nearest match of an unknown name: %o', async (table, message, advice) => {
    await expect(textOf(smallMirror(), request({ table }))).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining(message),
      advice: expect.stringContaining(advice),
    });
  });

  test('holds its snapshot of the mirror until it ends', { tags: 'full' }, async () => {
    const file = mirrorFile((database) => insertRows(database, 'users', madeUpUsers(2_000)));
    const chunks = exportChunks(openStore(file), request(), { signal: never, onRows: () => {}, onWarning: () => {} });
    await chunks.next();
    expect(isReleased(file)).toBe(false);
    await chunks.return(undefined);
    expect(isReleased(file)).toBe(true);
  });

  test.each<Partial<FileForm>>([{}, { compression: 'gzip' }, { format: 'parquet' }, { format: 'xlsx' }])(
    'stops between two chunks and releases the mirror: %o',
    async (form) => {
      const file = mirrorFile((database) => insertRows(database, 'users', madeUpUsers(2_000)));
      const store = openStore(file);
      const stop = new AbortController();
      const chunks = exportChunks(store, request({ form }), {
        signal: stop.signal,
        onRows: () => stop.abort(new Error('stopped')),
        onWarning: () => {},
      });
      await expect(Array.fromAsync(chunks)).rejects.toThrow('stopped');
      expect(isReleased(file)).toBe(true);
    },
  );
});

describe('an export of a large table', () => {
  const count = 12_000;

  function largeMirror(): string {
    return mirrorFile((database) => {
      insertRows(database, 'users', madeUpUsers(count));
      // Gaps, negative and huge ids, and rows of very different lengths.
      database.exec(`DELETE FROM users WHERE id BETWEEN 3000 AND 4500 OR id % 7 = 0;
        UPDATE users SET id = -id WHERE id < 500;
        UPDATE users SET id = id + 9000000000000000000 WHERE id > 11500;
        UPDATE users SET data = printf('%.*c', 20000, 'x') WHERE id BETWEEN 10000 AND 10400`);
    });
  }

  test('has the same bytes in each format by ranges as by one statement', { tags: 'full' }, async () => {
    const store = openStore(largeMirror());
    for (const format of exportFormats) {
      const form = { format };
      const ranged = await bytesOf(store, request({ form }));
      const whole = await bytesOf(store, request({ form, table: { where: 'true', order: 'id' } }));
      expect({ format, same: ranged.equals(whole) }).toEqual({ format, same: true });
    }
  });

  // proves: one-state
  test('shows a single state, whatever is committed meanwhile', { tags: 'full' }, async () => {
    const file = largeMirror();
    const store = openStore(file);
    const writer = openMirrorFile(file);
    onTestFinished(() => void writer.close());
    writer.exec("UPDATE users SET status = 'before'");
    const rows = Number(writer.prepare('SELECT count(*) FROM users').pluck().get());
    const parts: Uint8Array[] = [];
    let commits = 0;
    const chunks = exportChunks(store, request({ table: { columns: ['id', 'status'] } }), {
      signal: never,
      onRows: () => {
        if (commits < 5)
          writer.exec(`UPDATE users SET status = 'after ${commits}'; DELETE FROM users WHERE id % 5 = 0`);
        commits += 1;
      },
      onWarning: () => {},
    });
    for await (const part of chunks) parts.push(part);
    const lines = Buffer.concat(parts).toString().trimEnd().split('\n').slice(1);
    expect(commits).toBeGreaterThan(5);
    expect(lines).toHaveLength(rows);
    expect(lines.filter((line) => !/,"?before"?$/.test(line))).toEqual([]);
  });
});
