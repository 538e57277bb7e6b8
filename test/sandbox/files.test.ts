import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { resourceNames } from '../../src/model/resources.ts';
import { openSandbox } from '../support/bent/sandbox.ts';
import { startSandbox, withSandbox } from '../support/sandbox.ts';
import { call, json } from './call.ts';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'sandbox-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

describe('a sandbox in a file', () => {
  test('has the same data as one in memory', async () => {
    const sandbox = await startSandbox({ file: join(folder(), 'sandbox.db') });
    const memory = await startSandbox();
    for (const resource of resourceNames) expect(sandbox.control.dump(resource)).toEqual(memory.control.dump(resource));
  });

  test('continues with the data of its file', async () => {
    const file = join(folder(), 'sandbox.db');
    const before = await withSandbox({ file }, async (sandbox) => {
      const body = { type: 'add', amount: 5, description: 'x' };
      await call(sandbox, '/api/v1/users/3/update-balance', { method: 'PUT', body });
      sandbox.control.insert('users');
      sandbox.control.remove('users', 61);
      return {
        users: sandbox.control.dump('users'),
        user: await json(sandbox, '/api/v1/users/3?orders=1&ips=1&balance_transactions=1'),
      };
    });
    const sandbox = await startSandbox({ file, users: 5, seed: 99 });
    expect(sandbox.control.dump('users')).toEqual(before.users);
    expect(await json(sandbox, '/api/v1/users/3?orders=1&ips=1&balance_transactions=1')).toEqual(before.user);
    expect(sandbox.control.ledger()).toHaveLength(1);
    // An id is never reused, even after a restart.
    expect(sandbox.control.insert('users')['id']).toBe(62);
  });

  test('is readable by its owner alone, whatever the umask', async () => {
    const umask = process.umask(0);
    onTestFinished(() => void process.umask(umask));
    const path = folder();
    const sandbox = await startSandbox({ file: join(path, 'sandbox.db') });
    await call(sandbox, '/api/v1/users');
    for (const name of readdirSync(path)) expect(statSync(join(path, name)).mode & 0o077).toBe(0);
  });

  test('is refused if the file is something else, which is not changed', async () => {
    const path = folder();
    const other = join(path, 'other.db');
    new Database(other).exec('CREATE TABLE notes (text)').close();
    await expect(openSandbox({ file: other })).rejects.toThrow('a database of something else');
    const text = join(path, 'notes.txt');
    writeFileSync(text, 'no database at all, and long enough to be looked at: '.repeat(100));
    await expect(openSandbox({ file: text })).rejects.toThrow('cannot use');
    await expect(openSandbox({ file: join(path, 'none', 'sandbox.db') })).rejects.toThrow('cannot use');
    const check = new Database(other, { readonly: true });
    expect(check.prepare('SELECT name FROM sqlite_schema').pluck().all()).toEqual(['notes']);
    check.close();
  });

  test('is refused while another sandbox uses it', async () => {
    const file = join(folder(), 'sandbox.db');
    await startSandbox({ file });
    await expect(openSandbox({ file })).rejects.toThrow('another process is writing to it');
  });
});

describe('starting a sandbox', () => {
  test('is refused on a port in use, before a file is created', async () => {
    const sandbox = await startSandbox();
    const file = join(folder(), 'sandbox.db');
    const port = Number(new URL(sandbox.url).port);
    await expect(openSandbox({ users: 1, port, file })).rejects.toThrow('cannot listen');
    expect(existsSync(file)).toBe(false);
  });

  test('is refused for invalid counts and switches', async () => {
    await expect(openSandbox({ users: -1 })).rejects.toThrow('-1 users');
    await expect(openSandbox({ users: 1, behaviour: { page_max: -1 } })).rejects.toThrow('page_max');
  });

  test('listens on this machine alone', async () => {
    const sandbox = await startSandbox();
    expect(new URL(sandbox.url).hostname).toBe('127.0.0.1');
  });
});
