import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { runCli, spawnCli } from '../support/cli.ts';
import { commandFile, sourceCommandFile } from '../support/command-file.ts';
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
    expect(stderr).toBe("error: unknown command 'confg'\n(Did you mean config?)\n");
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
    expect(await config('nowhere')).toMatch(/^api\.key +\*{4} +environment ADMIN_MIRROR_API_KEY_FILE$/m);
  });
});

describe('completions', () => {
  /** What is offered for the last of the words. */
  async function complete(...words: string[]): Promise<string[]> {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'settings.yaml'), '');
    mkdirSync(join(folder, 'config/reports'), { recursive: true });
    const { stdout } = await spawnCli(['complete', '--', ...words], { folder });
    return stdout
      .split('\n')
      .flatMap((line) => (line === '' || line.startsWith(':') ? [] : (line.split('\t')[0] ?? [])));
  }

  test.each([
    [['conf'], ['config']],
    [['config', '--jo'], ['--journal']],
    [
      ['people', 'add', 'anna', '--role', 'a'],
      ['analyst', 'approver', 'admin'],
    ],
    [['--config', 'sett'], ['settings.yaml']],
    [['sync', 'coup'], ['coupons']],
    [
      ['export', '--format=js'],
      ['json', 'jsonl'],
    ],
    [['bulk', 'plan', 'no'], ['notify']],
    [['bulk', 'plan', 'balance', 'sett'], ['settings.yaml']],
    [['snapshot', 'config/re'], ['config/reports/']],
    [['dem'], []],
  ])('offer for %j', { tags: 'full' }, async (words, offered) => {
    expect(await complete(...words)).toEqual(offered);
  });

  /** What bash offers once the line was typed, as its readline splits it into words. It has no package of completions. */
  function offeredByBash(folder: string, ...words: readonly string[]): string[] {
    const bin = join(folder, 'bin');
    mkdirSync(bin, { recursive: true });
    const command = `#!/bin/sh\nexec '${process.execPath}' '${commandFile}' "$@"\n`;
    writeFileSync(join(bin, 'admin-mirror'), command, { mode: 0o755 });
    writeFileSync(join(bin, 'npx'), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 });
    const script = `
      source <(admin-mirror completions bash); source <(admin-mirror completions bash)
      COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); of=$(complete -p "$1"); of=\${of##*-F }
      "\${of% *}" "$1" "\${COMP_WORDS[COMP_CWORD]}" "\${COMP_WORDS[COMP_CWORD - 1]}"
      printf '%s\n' "\${COMPREPLY[@]}"`;
    const environment = { PATH: `${bin}:/usr/bin:/bin`, HOME: folder };
    const { stdout, stderr } = spawnSync('bash', ['--norc', '-c', script, 'bash', ...words], {
      cwd: folder,
      env: environment,
      encoding: 'utf8',
    });
    expect(stderr).toBe('');
    return stdout.trimEnd().split('\n');
  }

  test('work in bash as it comes, also after npx, and run nothing that is typed', { tags: 'full' }, () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'two words.csv'), '');
    mkdirSync(join(folder, 'sheets'));
    const offered = (...words: readonly string[]) => offeredByBash(folder, 'admin-mirror', ...words);
    expect(offered('sy')).toEqual(['sync']);
    expect(offeredByBash(folder, 'npx', 'admin-mirror', 'sy')).toEqual(['sync']);
    expect(offered('bulk', 'plan', 'no')).toEqual(['notify']);
    expect(offered('bulk', 'plan', 'balance', 'tw')).toEqual([String.raw`two\ words.csv`]);
    expect(offered('snapshot', 'she')).toEqual(['sheets/']);
    expect(offered('export', '--format', '=', 'js')).toEqual(['json', 'jsonl']);
    expect(offered('export', '--format', '')).toContain('parquet');
    expect(offered('')).toContain('init');
    expect(offered('').filter((each) => each.includes(' '))).toEqual([]);
    offered('sync', `$(touch ${folder}/ran)`);
    expect(existsSync(join(folder, 'ran'))).toBe(false);
  });

  test.each(['zsh', 'fish', 'powershell'])('have a script for %s that asks the command', async (shell) => {
    const { stdout } = await spawnCli(['completions', shell], { folder: temporaryFolder() });
    expect(stdout).toMatch(/admin-mirror complete/);
  });

  test('end with 2 for an unknown shell, and name the known ones', async () => {
    const { code, stderr } = await runCli(['completions', 'zhs'], { folder: temporaryFolder() });
    expect(code).toBe(2);
    expect(stderr).toContain('zsh');
  });
});
