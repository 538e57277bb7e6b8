import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { describe, expect, onTestFinished, test } from 'vitest';
import { commandFile } from '../support/command-file.ts';
import { sample } from '../support/part.ts';

/** A sandbox in a child process, and the first line that it prints. */
async function started(
  ...flags: string[]
): Promise<{ line: string; stop: (signal: NodeJS.Signals) => Promise<number | null> }> {
  const child = spawn(process.execPath, [commandFile, 'sandbox', ...flags], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout });
  const [line] = (await once(lines, 'line')) as [string];
  return {
    line,
    async stop(signal) {
      const ended = once(child, 'exit');
      child.kill(signal);
      return ((await ended) as [number | null])[0];
    },
  };
}

function run(...flags: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, [commandFile, 'sandbox', ...flags], { encoding: 'utf8' });
}

describe('the sandbox command', () => {
  test('prints one line of JSON when it is ready, serves, and ends with the exit code of the signal', async () => {
    const flags = ['--users', '20', '--coupons', '3', '--seed', '9', '--now', '2026-03-11', '--chaos', 'rough'];
    const { line, stop } = await started(
      ...flags,
      '--behaviour',
      'page_max=7',
      '--behaviour',
      'maintenance=off',
      '--json',
      // A flag of every command, which is none of the sandbox's own.
      '--quiet',
    );
    const ready = JSON.parse(line) as { url: string; key: string; pid: number };
    expect(ready).toEqual({
      url: expect.stringContaining('http://127.0.0.1:'),
      key: expect.any(String),
      pid: expect.any(Number),
    });
    const headers = { authorization: `Bearer ${ready.key}`, accept: 'application/json' };
    const list = async (): Promise<unknown> => {
      const reply = await fetch(`${ready.url}/api/v1/users?paginate=500`, { headers }).catch(() => undefined);
      return reply?.status === 200 ? reply.json() : undefined;
    };
    await expect.poll(list).toMatchObject({ total: 20, per_page: 7 });
    const reply = await fetch(`${ready.url}/api/v1/users/999999`, {
      headers: { authorization: `Bearer ${ready.key}x`, accept: 'application/json' },
    }).catch(() => undefined);
    expect(reply?.status).not.toBe(200);
    expect(await stop('SIGTERM')).toBe(143);
  });

  const wrong = [
    ['--users', 'many'],
    ['--now', 'soon'],
    ['--chaos', 'mild'],
    ['--behaviour', 'page_max'],
    ['--behaviour', 'page_maxx=1'],
    ['--behaviour', 'errors=often'],
    ['--file', '/nowhere/at/all.db'],
  ] as const;
  test.each(sample(wrong, 2))('refuses %s %s with exit code 2 and one message', (flag, value) => {
    const { status, stderr } = run(flag, value);
    expect(status).toBe(2);
    expect(stderr).toMatch(/^error: .+\n.*\n?$/);
  });
});
