import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { exportChunks, type ExportRequest } from '../../src/data/export.ts';
import { maskedStore } from '../../src/data/mask.ts';
import { openReadingStore } from '../../src/store/reading.ts';
import { invoke } from '../support/invoke.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';

const secret = Buffer.from('a secret of some length');

function mirrorWith(users: number): string {
  return mirrorFile((database) => {
    insertRows(database, 'users', madeUpUsers(users));
    insertRows(database, 'emails', [
      { id: 1n, user_id: 2n, receiver: 'USER.1@mail-1.example.com', subject: 'Hello' },
      { id: 2n, user_id: 3n, receiver: 'user.2@mail-2.example.com', subject: 'Hello' },
    ]);
  });
}

async function exported(file: string, columns: string[], request: Partial<ExportRequest>): Promise<string> {
  const store = maskedStore(openReadingStore(file), { columns, secret });
  try {
    const whole = {
      what: { relation: 'users', meta: false },
      form: { format: 'csv', raw: false, compression: null, bom: false },
    } as const;
    let text = '';
    const run = { signal: new AbortController().signal, onRows: () => {} };
    for await (const chunk of exportChunks(store, { ...whole, ...request }, run)) {
      text += Buffer.from(chunk).toString();
    }
    return text;
  } finally {
    store.close();
  }
}

describe('masked columns', () => {
  test('are the same on several threads as on one, and no name is in them', { timeout: 20_000 }, async () => {
    const file = mirrorWith(21_000);
    const columns = ['email', 'username', 'first_name', 'last_name', 'avatar'];
    const threads = await exported(file, columns, {});
    expect(await exported(file, columns, { threads: 1 })).toBe(threads);
    expect(threads.split('\n')).toHaveLength(21_002);
    for (const text of ['user_77', 'user.77@', 'Anna', 'Smith', 'cdn.example.com']) expect(threads).not.toContain(text);
    expect(threads).toContain('"theme"');
  });

  test('of a query are found by their names, and the same person is the same in another export', async () => {
    const file = mirrorWith(5);
    const lines = async (sql: string, names: string[]) =>
      (await exported(file, names, { what: { sql } })).trim().split('\n').slice(1);
    const users = await lines('SELECT id, email FROM users ORDER BY id', ['email']);
    const emails = await lines('SELECT user_id, receiver FROM emails ORDER BY id', ['receiver']);
    expect(emails).toEqual(users.slice(1, 3));
    expect(users[0]).toMatch(/^1,[b-v]{15}@[b-v]{15}\.invalid$/);
  });

  test.each([
    [['export', 'users', '--mask', 'emial'], /--mask names "emial", which is no column of what is exported\n.*"email"/],
    [['export', 'users', '--columns', 'id', '--mask', 'email'], /--mask names "email", which is no column/],
    [['export', '--sql', 'SELECT email AS mail FROM users', '--mask', 'email'], /--mask names "email"[^]*"mail"/],
    [['export', 'users', '--mask', 'email,'], /--mask has an empty name/],
    [['export', 'users', '--pseudonym-key', 'key'], /is for columns with pseudonyms/],
    [
      ['export', 'users', '--mask', 'email', '--pseudonym-key', 'nowhere'],
      /could not read the key of the pseudonyms from/,
    ],
  ] as const)('that cannot be are told: %j', async (args, message) => {
    const { code, stdout, stderr } = await invoke([...args, '--db', mirrorWith(1)]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
  });

  test('have other pseudonyms in every export, or with a key the same, and those of a snapshot with that key', async () => {
    const file = mirrorWith(3);
    const folder = join(file, '..');
    writeFileSync(join(folder, 'key'), 'a key of more than sixteen bytes\n');
    const emails = async (...args: string[]) =>
      (await invoke(['export', 'users', '--columns', 'email', ...args], { folder })).stdout;
    const mask = ['--db', file, '--mask', 'email'];
    expect(await emails(...mask)).not.toBe(await emails(...mask));
    const keyed = await emails(...mask, '--pseudonym-key', 'key');
    expect(await emails(...mask, '--pseudonym-key', 'key')).toBe(keyed);
    await invoke(['snapshot', 'copy.db', '--anonymise', '--pseudonym-key', 'key', '--db', file], { folder });
    expect(await emails('--db', join(folder, 'copy.db'))).toBe(keyed);
  });
});
