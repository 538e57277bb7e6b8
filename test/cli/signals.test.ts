import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { finished } from '../support/cli.ts';
import type { Manner } from '../support/odd-command.ts';

const script = fileURLToPath(new URL('../support/odd-command.ts', import.meta.url));

/** Starts a command that waits, and returns it once it does. */
async function start(manner: Manner) {
  const child = spawn(process.execPath, [script, 'work', manner]);
  const end = finished(child);
  await once(child.stdout, 'data');
  return { child, end };
}

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
