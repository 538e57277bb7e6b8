// @module-tag full
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { finished } from '../support/cli.ts';
import { invoke } from '../support/invoke.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import type { LogLevel } from '../../src/settings/table.ts';

const script = fileURLToPath(new URL('../support/logging-command.ts', import.meta.url));
const key = 'sk-live-0123456789';

interface Line {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

function linesOf(text: string): Line[] {
  return text
    .trim()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line);
}

/** A process that logs the lines it is given. */
function start(folder: string, args: readonly string[], before = 'true') {
  const environment = { PATH: process.env['PATH'], ADMIN_MIRROR_API_KEY: key };
  const command = ['-c', `${before}; exec "$0" "$@"`, process.execPath, script, 'work', ...args];
  const child = spawn('sh', command, { cwd: folder, env: environment });
  onTestFinished(() => void child.kill('SIGKILL'));
  const end = finished(child);
  const said = async () => String((await once(child.stdout, 'data'))[0]);
  const log = async (line: string) => {
    const answer = said();
    child.stdin.write(`${line}\n`);
    await answer;
  };
  return { child, end, said, log };
}

describe('the log file', () => {
  test.each(['config/admin-mirror.yaml', 'data/mirror.worker.db', '.env'])('is never %s', async (name) => {
    const folder = temporaryFolder();
    for (const each of ['config', 'data']) mkdirSync(join(folder, each));
    writeFileSync(join(folder, name), '', { mode: 0o600 });
    const environment = { ADMIN_MIRROR_BASE_URL: 'http://127.0.0.1:9', ADMIN_MIRROR_API_KEY: key };
    const { code, stderr } = await invoke(['sync', '--log-file', name], { folder, environment });
    expect(code).toBe(2);
    expect(stderr).toContain("which is another one of admin-mirror's own files");
    expect(readFileSync(join(folder, name), 'utf8')).toBe('');
  });

  test('begins anew if it was moved away, so that it can be rotated without losing lines', async () => {
    const folder = temporaryFolder();
    const [path, moved] = [join(folder, 'log/all.log'), join(folder, 'log/all.log.1')];
    const { child, end, said, log } = start(folder, ['--log-file', 'log/all.log']);
    await said();
    await log('one');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    renameSync(path, moved);
    await log('two');
    await log('three');
    child.stdin.end();
    const { code, stderr } = await end;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const messages = (file: string) => linesOf(readFileSync(file, 'utf8')).map(({ msg }) => msg);
    expect(messages(moved)).toEqual(['one']);
    expect(messages(path)).toEqual(['two', 'three']);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test('that cannot grow does not end the run, and is reported once', async () => {
    const folder = temporaryFolder();
    // 512 bytes: about the fourth line is too much.
    const { child, end, said, log } = start(folder, ['--log-file', 'all.log'], 'ulimit -f 1');
    await said();
    for (let line = 0; line < 8; line += 1) await log(`${line} ${'x'.repeat(70)}`);
    child.stdin.end();
    const { code, stderr } = await end;
    expect([code, stderr.match(/could not write the log/g)?.length]).toEqual([0, 1]);
  });

  test('is checked before anything is done', async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'taken'), '');
    const environment = { ADMIN_MIRROR_BASE_URL: 'http://127.0.0.1:9', ADMIN_MIRROR_API_KEY: key };
    const { code, stderr } = await invoke(['sync', '--log-file', 'taken/all.log'], { folder, environment });
    expect(code).toBe(2);
    expect(stderr).toMatch(/could not write the log .*taken\/all\.log/);
    expect(existsSync(join(folder, 'data'))).toBe(false);
  });

  test('must not be another file of the program', async () => {
    const journal = await invoke(['sync', '--log-file', 'data/journal.db']);
    expect(journal.code).toBe(2);
    expect(journal.stderr).toMatch(
      /^error: log\.file is the same file as store\.journal: .*\nName a file of its own\.\n$/,
    );
    const environment = { ADMIN_MIRROR_API_KEY_FILE: 'key' };
    const keys = await invoke(['sync', '--log-file', 'key'], { environment });
    expect(keys.code).toBe(2);
    expect(keys.stderr).toContain("which is another one of admin-mirror's own files");
  });
});

describe('a crash', () => {
  test('prints its stack without the key, and ends with 1', async () => {
    const { child, end, said } = start(temporaryFolder(), []);
    // Only now the log knows the settings, and with them the key.
    await said();
    child.stdin.write('crash\n');
    const { code, stderr } = await end;
    expect(code).toBe(1);
    expect(stderr).toContain('it broke at ****');
    expect(stderr).not.toContain(key);
  });
});

describe('every log line of', () => {
  async function logged(
    argv: readonly string[],
    level: LogLevel,
    prepare: (folder: string, sandbox: Sandbox) => void = () => {},
  ) {
    const sandbox = await startSandbox();
    const { url, key } = sandbox;
    const folder = temporaryFolder();
    prepare(folder, sandbox);
    const environment = { ADMIN_MIRROR_BASE_URL: url, ADMIN_MIRROR_API_KEY: key };
    const given = { folder, environment, constants: { log: { level } } };
    const first = await invoke([...argv, '--json', '--log-file', 'all.log'], given);
    return { ...given, ...first, lines: linesOf(readFileSync(join(folder, 'all.log'), 'utf8')) };
  }

  test('a sync has its run, even for requests from other threads, and so does a comparison', async () => {
    const made = await logged(['sync'], 'debug', (_, { control }) => control.faultNext({ fault: 'error_500' }));
    const { run, requests } = JSON.parse(made.stdout) as { run: string; requests: number };
    expect(new Set(made.lines.map((line) => line['run']))).toEqual(new Set([run]));
    expect(made.lines.at(-1)).toMatchObject({ level: 'info', msg: 'ended', status: 'complete' });
    const sent = made.lines.filter(({ msg }) => msg === 'response');
    expect(sent).toHaveLength(requests);
    // The failed request is logged, and so is its retry.
    const failed = sent.filter(({ status }) => status === 500);
    expect(failed).toMatchObject([{ attempt: 1 }]);
    expect(sent.filter(({ path }) => path === failed[0]?.['path'])).toMatchObject([
      { attempt: 1 },
      { attempt: 2, status: 200 },
    ]);
    const path = expect.stringMatching(/^\/api\/v1\//) as string;
    for (const { ms, bytes, ...line } of sent) {
      expect(line).toMatchObject({ method: 'GET', path });
      expect(Number.isInteger(ms) && Number(bytes) > 10).toBe(true);
    }

    const { code } = await invoke(['verify', '--json', '--log-file', 'verify.log'], made);
    expect(code).toBe(0);
    const lines = linesOf(readFileSync(join(made.folder, 'verify.log'), 'utf8'));
    expect(lines.length).toBeGreaterThan(4);
    const [other, ...others] = new Set(lines.map((line) => line['run']));
    expect(others).toEqual([]);
    expect(other).toMatch(/^\d{8}T\d{6}-[0-9a-f]{8}$/);
    expect(other).not.toBe(run);
  });

  test('a batch has its name, from the first request of the plan', async () => {
    const { stdout, lines } = await logged(['bulk', 'run', 'balance', 'a.csv', '--yes'], 'debug', (folder) =>
      writeFileSync(join(folder, 'a.csv'), 'email,type,amount\nnobody@example.com,add,5\n'),
    );
    const { batch } = JSON.parse(stdout) as { batch: string };
    expect(new Set(lines.map((line) => line['batch']))).toEqual(new Set([batch]));
    // The email that was looked up is not logged.
    expect(lines.some((line) => String(line['path']).includes('filter%5Bemail%5D=…'))).toBe(true);
    expect(JSON.stringify(lines)).not.toContain('nobody');
    // The error is logged, too, because standard error may go elsewhere.
    expect(lines.at(-1)).toMatchObject({ level: 'error', exit_code: 2, msg: expect.stringContaining('invalid') });
  });
});
