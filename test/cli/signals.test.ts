import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { InterruptedError } from '../../src/model/errors.ts';
import { finished } from '../support/cli.ts';
import { invoke } from '../support/invoke.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import type { Manner } from '../support/odd-command.ts';

const script = fileURLToPath(new URL('../support/odd-command.ts', import.meta.url));

/** Starts a command that waits, and returns it once it does. */
async function start(manner: Manner) {
  const child = spawn(process.execPath, [script, 'work', manner]);
  const end = finished(child);
  await once(child.stdout, 'data');
  return { child, end };
}

test('a command that was stopped says what is kept and what goes on next time', async () => {
  const sandbox = await startSandbox();
  const folder = temporaryFolder();
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  expect((await invoke(['sync'], { folder, environment })).code).toBe(0);
  const words = {
    sync: /What was read is kept\. The next `npx admin-mirror sync` goes on from there\./,
    verify: /Nothing was changed\./,
    'export users -o users.csv': /Nothing was written/,
    'snapshot copy.db': /Nothing was written/,
    backup: /No backup was made/,
  };
  for (const [line, pattern] of Object.entries(words)) {
    const signal = AbortSignal.abort(new InterruptedError('SIGINT'));
    const { code, stderr } = await invoke(line.split(' '), { folder, environment, signal });
    expect([line, code, stderr]).toEqual([line, 130, expect.stringMatching(pattern)]);
    expect(stderr).not.toContain('error:');
  }
  expect(readdirSync(folder)).toEqual(['data']);
});

describe.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('%s', (signal, code) => {
  test(`lets the command stop in order and ends with ${code}`, async () => {
    const { child, end } = await start('polite');
    child.kill(signal);
    const result = await end;
    expect(result.code).toBe(code);
    expect(result.stderr).toBe(`stopped by ${signal}\n`);
  });

  test('ends the process at once if it is sent twice', async () => {
    const { child, end } = await start('stubborn');
    child.kill(signal);
    await once(child.stdout, 'data');
    child.kill(signal);
    expect((await end).code).toBe(code);
  });
});
