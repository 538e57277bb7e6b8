import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { runCli, spawnCli } from '../support/cli.ts';
import { sourceCommandFile } from '../support/command-file.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { sample } from '../support/part.ts';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

describe('the command as a process', () => {
  test.each([['--version'], ['-V'], ['--version', '--no-color']])(
    'with %s prints only the version',
    async (...args) => {
      const printed = { stdout: `${version}\n`, stderr: '' };
      expect(await spawnCli(args, { folder: temporaryFolder() })).toEqual({ code: 0, ...printed });
      // The sources, as run in a clone.
      expect(await promisify(execFile)(process.execPath, [sourceCommandFile, ...args])).toEqual(printed);
    },
  );

  test('ends with 2 if it is unknown, with a message on standard error', async () => {
    const { code, stdout, stderr } = await spawnCli(['confg'], { folder: temporaryFolder() });
    expect(code).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toBe('error: unknown command "confg"\nDid you mean config?\n');
  });

  test('also runs as src/main.ts, with the same exit code', async () => {
    const run = promisify(execFile)(process.execPath, [join(sourceCommandFile, '../main.ts'), 'confg']);
    await expect(run).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining('unknown command "confg"') });
  });

  test.each(sample(['--version', 'help', 'completions bash'], 1))(
    '`%s` ends quietly if its reader is gone',
    async (args) => {
      const script = `set -o pipefail; "$NODE" "$COMMAND" ${args} | :`;
      const { stderr } = await promisify(execFile)('bash', ['-c', script], {
        env: { ...process.env, NODE: process.execPath, COMMAND: sourceCommandFile },
      });
      expect(stderr).toBe('');
    },
  );

  test('reports a full disk behind standard output in one line', { tags: 'full' }, async () => {
    const script = '"$NODE" "$COMMAND" help > /dev/full';
    const run = promisify(execFile)('bash', ['-c', script], {
      env: { ...process.env, NODE: process.execPath, COMMAND: sourceCommandFile },
    });
    await expect(run).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^error: could not write to standard output: ENOSPC: no space left.*\n$/),
    });
  });
});

describe('config', () => {
  test('prints every setting with its origin, and masks the key', async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, '.env'), 'ADMIN_MIRROR_API_KEY=secret-key-abcd\n');
    const environment = { ADMIN_MIRROR_BASE_URL: 'https://panel.example.com' };
    const { code, stdout, stderr } = await runCli(['config', '--db', 'x.db'], { folder, environment });
    expect(code).toBe(0);
    expect(stderr).toBe('');
    expect(stdout).toMatch(/^api\.base_url +https:\/\/panel\.example\.com +environment ADMIN_MIRROR_BASE_URL$/m);
    expect(stdout).toMatch(/^api\.key +\*\*\*\*abcd +\.env ADMIN_MIRROR_API_KEY$/m);
    expect(stdout).toMatch(/^store\.mirror +x\.db +flag --db$/m);
    expect(stdout).toMatch(/^sync\.brake +auto +default$/m);
    expect(stdout).not.toContain('secret-key');
  });

  test('shows a key from a file, but not from a file that cannot be read', async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'key'), 'secret-key-abcd\n');
    const config = async (file: string) =>
      (await runCli(['config'], { folder, environment: { ADMIN_MIRROR_API_KEY_FILE: file } })).stdout;
    expect(await config('key')).toMatch(/^api\.key +\*\*\*\*abcd +the key file$/m);
    expect(await config('nowhere')).toMatch(/^api\.key +- +not set$/m);
  });

  test('--json is one document', async () => {
    const { stdout } = await runCli(['config', '--json'], {
      folder: temporaryFolder(),
      environment: { ADMIN_MIRROR_API_KEY: 'secret-key-abcd' },
    });
    const { settings } = JSON.parse(stdout) as { settings: Record<string, unknown> };
    expect(settings['api.key']).toEqual({
      value: '****abcd',
      origin: 'environment ADMIN_MIRROR_API_KEY',
      default: null,
    });
    expect(settings['api.base_url']).toEqual({ value: null, origin: 'not set', default: null });
    expect(settings['api.page_size']).toEqual({ value: 1000, origin: 'default', default: 1000 });
  });

  test('shows a wrong value with its origin, and ends with 2', async () => {
    const { code, stdout, stderr } = await runCli(['config'], {
      folder: temporaryFolder(),
      environment: { ADMIN_MIRROR_API_CONCURRENCY: 'many' },
    });
    expect(code).toBe(2);
    expect(stdout).toMatch(/^api\.concurrency +many +environment/m);
    expect(stderr).toContain('expected a whole number from 1 to 64');
  });
});

describe('completions', () => {
  /** What bash offers for the end of the line. */
  async function complete(line: string): Promise<string[]> {
    const folder = temporaryFolder();
    const { stdout: script } = await runCli(['completions', 'bash'], { folder });
    writeFileSync(join(folder, 'completion.bash'), script);
    writeFileSync(join(folder, 'settings.yaml'), '');
    // Like bash: "=" is a word of its own.
    const words = line.split(/ |(=)/).filter((word) => word !== undefined);
    const { stdout } = await promisify(execFile)(
      'bash',
      [
        '--norc',
        '-c',
        `source completion.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _admin_mirror; printf '%s\\n' "\${COMPREPLY[@]}"`,
        'bash',
        ...words,
      ],
      { cwd: folder },
    );
    return stdout.split('\n').filter((word) => word !== '');
  }

  test('complete commands, flags, choices and files in bash', { tags: 'full' }, async () => {
    expect(await complete('admin-mirror con')).toEqual(['config']);
    expect(await complete('admin-mirror config --j')).toEqual(['--journal', '--json']);
    expect(await complete('admin-mirror completions ')).toEqual(['bash', 'zsh']);
    expect(await complete('admin-mirror people add anna --role a')).toEqual(['analyst', 'approver', 'admin']);
    expect(await complete('admin-mirror --config settings.yaml comp')).toEqual(['completions']);
    expect(await complete('admin-mirror --config=settings.yaml comp')).toEqual(['completions']);
    expect(await complete('admin-mirror --config sett')).toEqual(['settings.yaml']);
    expect(await complete('admin-mirror --config=sett')).toEqual(['settings.yaml']);
    expect(await complete('admin-mirror help conf')).toEqual(['config']);
    expect(await complete('admin-mirror help bulk re')).toEqual([
      'resume',
      'reconcile',
      'results',
      'resolve',
      'receipt',
    ]);
    expect(await complete('admin-mirror bulk help pl')).toEqual(['plan']);
    expect(await complete('admin-mirror --base-url ')).toEqual([]);
    expect(await complete('admin-mirror sync coup')).toEqual(['coupons']);
    expect(await complete('admin-mirror --json sync users --fu')).toEqual(['--full']);
    expect(await complete('admin-mirror export --format=js')).toEqual(['json', 'jsonl']);
    expect(await complete('admin-mirror bulk plan no')).toEqual(['notify']);
    expect(await complete('admin-mirror bulk plan balance sett')).toEqual(['settings.yaml']);
    expect(await complete('admin-mirror bulk run balance settings.yaml --rehe')).toEqual(['--rehearse']);
    expect(await complete('admin-mirror dem')).toEqual([]);
  });

  test('give zsh the same script, after a line that lets zsh read it', async () => {
    const [bash, zsh] = await Promise.all(
      ['bash', 'zsh'].map((shell) => runCli(['completions', shell], { folder: temporaryFolder() })),
    );
    expect(zsh?.stdout).toBe(`autoload -U +X bashcompinit && bashcompinit\n${bash?.stdout}`);
    // Variables with a special meaning in zsh.
    expect(bash?.stdout).not.toMatch(/\b(?:path|words|status)=/);
  });

  test('end with 2 for an unknown shell, and name the known ones', async () => {
    const { code, stderr } = await runCli(['completions', 'zhs'], { folder: temporaryFolder() });
    expect(code).toBe(2);
    expect(stderr).toContain('"zsh"');
  });
});
