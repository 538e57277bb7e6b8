import { readFileSync, statSync, writeFileSync } from 'node:fs';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { journalKind } from '../../src/journal/schema.ts';
import { resourceNames, resourceOf } from '../../src/model/resources.ts';
import { FileError } from '../../src/model/errors.ts';
import { openForReading, openForWriting } from '../../src/store/file-kind.ts';
import { mirrorKind, openMirrorFile, openMirrorForReading } from '../../src/store/open.ts';
import { workerKind } from '../../src/worker/store/sqlite.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const golden = new URL('golden-schema.sql', import.meta.url);

function schemaOf(file: string): string {
  const database = new SqliteDatabase(file, { readonly: true });
  try {
    const statements = database
      .prepare<[], string>(`SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid`)
      .pluck()
      .all();
    return `${statements.join(';\n\n')};\n`;
  } finally {
    database.close();
  }
}

describe('a new mirror file', () => {
  test('has the golden schema', () => {
    const file = `${temporaryFolder()}/mirror.db`;
    openMirrorFile(file).close();
    // UPDATE_DOCS=1 writes the file again.
    if (process.env['UPDATE_DOCS'] === '1') writeFileSync(golden, schemaOf(file));
    expect(schemaOf(file)).toBe(readFileSync(golden, 'utf8'));
  });

  test('is private, in WAL mode, and has its version', () => {
    const file = `${temporaryFolder()}/mirror.db`;
    const database = openMirrorFile(file);
    database.prepare('INSERT INTO mirror_events (at, kind, subject) VALUES (?, ?, ?)').run('now', 'test', 'x');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(`${file}-wal`).mode & 0o777).toBe(0o600);
    expect(database.pragma('journal_mode', { simple: true })).toBe('wal');
    expect(database.pragma('user_version', { simple: true })).toBe(mirrorKind.version);
    database.close();
  });

  test('has the fields of the reference in order, then the columns of the mirror', () => {
    const database = openMirrorFile(`${temporaryFolder()}/mirror.db`);
    for (const resource of resourceNames) {
      const names = database.prepare<[], string>(`SELECT name FROM pragma_table_info('${resource}')`).pluck().all();
      expect(names).toEqual([
        ...resourceOf(resource).fields.map(({ name }) => name),
        '_extra',
        '_first_seen_at',
        '_changed_at',
        '_seq',
      ]);
    }
    database.close();
  });
});

describe('a file that is not a mirror of this version', () => {
  test('is refused and left unchanged if it is not SQLite', () => {
    const file = `${temporaryFolder()}/notes.txt`;
    writeFileSync(
      file,
      'these are my notes, and they are longer than an SQLite header of one hundred bytes '.repeat(4),
    );
    const before = readFileSync(file);
    expect(() => openMirrorFile(file)).toThrow(/not an SQLite database/);
    expect(() => openMirrorForReading(file)).toThrow(/not an SQLite database/);
    expect(readFileSync(file)).toEqual(before);
  });

  // proves: other-files
  test('is refused and left unchanged if another program created it', () => {
    const file = `${temporaryFolder()}/other.db`;
    const other = new SqliteDatabase(file);
    other.exec('CREATE TABLE accounts (id INTEGER)');
    other.close();
    const before = readFileSync(file);
    expect(() => openMirrorFile(file)).toThrow(/not a mirror made by this program/);
    expect(readFileSync(file)).toEqual(before);
  });

  test.each([
    ['mirror', mirrorKind],
    ["worker's file", workerKind],
    ['journal', journalKind],
  ])('is refused and left unchanged if it is a %s of another version', (_, kind) => {
    const file = `${temporaryFolder()}/other.db`;
    const other = openForWriting(kind, file, []);
    other.pragma(`user_version = ${kind.version + 1}`);
    other.pragma('journal_mode = DELETE');
    other.close();
    const before = readFileSync(file);
    const refused = expect.objectContaining({
      message: expect.stringMatching(`${file} has version ${kind.version + 1}.*left it as it is`),
    });
    const absent = new FileError('absent');
    expect(() => openForWriting(kind, file, [])).toThrow(refused);
    expect(() => openForReading(kind, file, absent, absent)).toThrow(refused);
    expect(readFileSync(file)).toEqual(before);
  });
});

test('reading a missing mirror says to sync first', () => {
  expect(() => openMirrorForReading(`${temporaryFolder()}/none.db`)).toThrow(/there is no mirror at/);
});
