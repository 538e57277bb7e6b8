import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { finished } from '../support/cli.ts';
import { invoke } from '../support/invoke.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

interface Line {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

function linesOf(text: string): Line[] {
  return text.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Line] : []));
}

async function logged(argv: readonly string[], sandbox: Sandbox, folder = temporaryFolder(), terminal?: number) {
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  const made = await invoke(argv, { folder, environment, ...(terminal !== undefined && { terminal }) });
  return { ...made, lines: linesOf(made.stderr) };
}

describe('the log', () => {
  test('has JSON lines, more with --verbose, only warnings with --quiet, and words on a terminal', async () => {
    const sandbox = await startSandbox();
    const usual = (await logged(['sync'], sandbox)).lines;
    expect(usual.at(-1)).toMatchObject({ level: 'info', msg: 'ended', time: expect.stringMatching(/^\d{4}-.*Z$/) });
    const verbose = (await logged(['sync', '--verbose'], sandbox)).lines;
    expect(verbose.some(({ level }) => level === 'debug')).toBe(true);
    const quiet = (await logged(['sync', '--quiet'], sandbox)).lines;
    expect(quiet.filter(({ level }) => level !== 'warn')).toEqual([]);
    const { stderr } = await logged(['users', 'list', '--verbose', '--no-color'], sandbox, undefined, 200);
    expect(stderr).toMatch(/^\d\d:\d\d:\d\d debug response .*status=200/m);
  });

  test('of a sync has its run in each line, and of a comparison its own', { tags: 'full' }, async () => {
    const sandbox = await startSandbox();
    const folder = temporaryFolder();
    sandbox.control.faultNext({ fault: 'error_500' });
    const { stdout, lines } = await logged(['sync', '--json', '--verbose'], sandbox, folder);
    const { run, requests } = JSON.parse(stdout) as { run: string; requests: number };
    expect(new Set(lines.map((line) => line['run']))).toEqual(new Set([run]));
    const sent = lines.filter(({ msg }) => msg === 'response');
    expect(sent).toHaveLength(requests);
    // The failed request is logged, and so is its retry.
    const failed = sent.filter(({ status }) => status === 500);
    expect(failed).toMatchObject([{ attempt: 1 }]);
    expect(sent.filter(({ path }) => path === failed[0]?.['path'])).toMatchObject([
      { attempt: 1 },
      { attempt: 2, status: 200 },
    ]);
    for (const { ms, bytes, ...line } of sent) {
      expect(line).toMatchObject({ method: 'GET', path: expect.stringMatching(/^\/api\/v1\//) as string });
      expect(Number.isInteger(ms) && Number(bytes) > 10).toBe(true);
    }
    const [other, ...others] = new Set((await logged(['verify'], sandbox, folder)).lines.map((line) => line['run']));
    expect(others).toEqual([]);
    expect(other).not.toBe(run);
  });

  test('of a batch has its name from the first request, and no email', async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'a.csv'), 'email,type,amount\nnobody@example.com,add,5\n');
    const argv = ['bulk', 'run', 'balance', 'a.csv', '--yes', '--json', '--verbose'];
    const { stdout, lines } = await logged(argv, await startSandbox(), folder);
    const { batch } = JSON.parse(stdout) as { batch: string };
    expect(new Set(lines.map((line) => line['batch']))).toEqual(new Set([batch]));
    expect(lines.some((line) => String(line['path']).includes('filter%5Bemail%5D=…'))).toBe(true);
    expect(JSON.stringify(lines)).not.toContain('nobody');
  });
});

test('a crash prints its stack without the key, and ends with 1', async () => {
  const script = fileURLToPath(new URL('../support/odd-command.ts', import.meta.url));
  const env = { PATH: process.env['PATH'], ADMIN_MIRROR_API_KEY: 'sk-live-0123456789' };
  const { code, stderr } = await finished(
    spawn(process.execPath, [script, 'work', 'crashing'], { cwd: temporaryFolder(), env }),
  );
  expect(code).toBe(1);
  expect(stderr).toContain('it broke at ****');
  expect(stderr).not.toContain('sk-live-0123456789');
});
