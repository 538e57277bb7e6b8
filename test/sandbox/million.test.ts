// @module-tag full
/** The size that the sandbox is built for; bench/ measures its speed. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Agent, request } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { addDays, dayOf } from '../../src/model/time.ts';
import { commandFile } from '../support/command-file.ts';
import type { Page } from './call.ts';

const users = 1_000_000;
const pageSize = 1_000;

test('a million users are served completely, in pages of 1,000 by ranges of days', { timeout: 300_000 }, async () => {
  const flags = ['--users', String(users), '--emails', '0', '--now', '2026-03-11T10:20:30Z', '--json', '--quiet'];
  // In a child process, as a real server would be, so that reading does not take its time.
  const child = spawn(process.execPath, [commandFile, 'sandbox', ...flags], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const { url, key } = JSON.parse(line) as { url: string; key: string };
  const dispatcher = new Agent({ connections: 4 });
  onTestFinished(() => dispatcher.close());
  const headers = { authorization: `Bearer ${key}`, accept: 'application/json' };
  const read = async (path: string): Promise<Buffer> => {
    const { body } = await request(`${url}/api/v1/users?${path}`, { headers, dispatcher });
    return Buffer.from(await body.arrayBuffer());
  };
  const total = async (path: string): Promise<number> => (JSON.parse((await read(path)).toString()) as Page).total;
  expect(await total('paginate=1')).toBe(users);

  const pages: string[] = [];
  let sum = 0;
  const days = 9;
  for (let from = dayOf(Date.parse('2023-03-05')); from < '2026-03-13'; from = addDays(from, days)) {
    const range = `date=${from},${addDays(from, days)}`;
    const found = await total(`paginate=1&${range}`);
    sum += found;
    expect(found).toBeLessThanOrEqual(20 * pageSize);
    for (let page = Math.ceil(found / pageSize); page > 0; page -= 1) {
      pages.push(`paginate=${pageSize}&page=${page}&${range}&sort[created_at]=asc&sort[username]=asc`);
    }
  }
  expect(sum).toBeGreaterThanOrEqual(users);

  let records = 0;
  const reader = async (): Promise<void> => {
    for (let path = pages.pop(); path !== undefined; path = pages.pop()) {
      const bytes = await read(path);
      records += bytes.toString('latin1').split('"username":').length - 1;
    }
  };
  await Promise.all([reader(), reader(), reader(), reader()]);
  expect(records).toBe(sum);
});
