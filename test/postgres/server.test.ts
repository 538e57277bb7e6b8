// @module-tag full
/** The real PostgreSQL that tests run on, and what they may rely on. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { canStartPostgres, startPostgres, temporaryDatabase } from '../support/postgres.ts';

test('a test has its own database, whose password is not in its URL', async () => {
  const [one, other] = await Promise.all([temporaryDatabase(), temporaryDatabase()]);
  await one.query('CREATE TABLE only_here (id bigint)');
  const { rows } = await other.query("SELECT to_regclass('only_here') AS found, current_database() AS name");
  expect(rows).toEqual([{ found: null, name: other.name }]);
  expect(decodeURIComponent(one.url)).not.toContain(one.password);
});

test.skipIf(!canStartPostgres)('committed rows survive a kill and a start at the same address', async () => {
  const server = await startPostgres();
  onTestFinished(() => server.remove());
  const database = await server.database();
  await database.query('CREATE TABLE kept AS SELECT 7 AS number');
  await server.stop('kill');
  await expect(database.query('SELECT 1')).rejects.toThrow(/terminated|ECONNREFUSED|ECONNRESET/);
  await server.start();
  expect((await database.query('SELECT number FROM kept')).rows).toEqual([{ number: 7 }]);
  await server.stop('fast');
  await server.start();
  expect((await database.query('SELECT number FROM kept')).rows).toEqual([{ number: 7 }]);
});

test.skipIf(!canStartPostgres)('a server ends with the process that started it, however that ends', async () => {
  const support = new URL('../support/postgres.ts', import.meta.url).href;
  const program = `
    const { startPostgres } = await import(${JSON.stringify(support)});
    const server = await startPostgres();
    process.stdout.write(server.pid() + ' ' + server.folder + '\\n');
    setInterval(() => {}, 1000);
  `;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string];
  const [pid, folder = ''] = line.trim().split(' ');
  expect(existsSync(folder)).toBe(true);
  child.kill('SIGKILL');
  await expect.poll(() => existsSync(folder)).toBe(false);
  expect(() => process.kill(Number(pid), 0)).toThrow('ESRCH');
});
