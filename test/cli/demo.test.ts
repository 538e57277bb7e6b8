import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CliResult, finished, runCli, startCli } from '../support/cli.ts';
import { temporaryFolder, temporaryFolderNow } from '../support/temporary-folder.ts';

/** Whether anything accepts connections at the address. */
function isServed(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) });
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('close', () => socket.destroy());
  });
}

describe('the demo', () => {
  const folder = temporaryFolderNow();
  let shown: CliResult;
  beforeAll(async () => {
    shown = await runCli(['demo'], { folder: folder.path });
  });
  afterAll(() => folder.remove());

  test(
    'writes the files that it names, shows commands that work, and leaves nothing running',
    { tags: 'full' },
    async () => {
      const { code, stdout, stderr } = shown;
      expect(stderr.replaceAll(/^(([\d,]+ rows written|drawn) to data\/demo\/[\w.-]+|assumed: .*)\n/gm, '')).toBe('');
      expect(code).toBe(0);

      const named = new Set(stdout.match(/data\/demo\/[\w-]+\.\w+/g));
      expect([...named].sort()).toEqual([
        'data/demo/admin-mirror.yaml',
        'data/demo/coupons.jsonl',
        'data/demo/credit.csv',
        'data/demo/mirror.db',
        'data/demo/packages.xlsx',
        'data/demo/signups.svg',
        'data/demo/unsent-emails.csv',
        'data/demo/users.csv',
      ]);
      for (const file of named) expect(statSync(join(folder.path, file)).size).toBeGreaterThan(400);
      // Paths are relative, as a person would type them.
      expect(stdout).not.toContain(folder.path);
      expect(readFileSync(join(folder.path, 'data/demo/users.csv'), 'utf8')).toContain(
        /The first lines of .*:\n {2}.*\n {2}(.*)\n/.exec(stdout)?.[1] ?? 'no line shown',
      );

      const [, advice = ''] = stdout.split('What to try next');
      const commands = [...advice.matchAll(/^ {2}npx admin-mirror (query|schema) (.*)$/gm)];
      expect(commands).toHaveLength(2);
      for (const [, name = '', rest = ''] of commands) {
        const args = [...rest.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
        expect(await runCli([name, ...args], { folder: folder.path })).toMatchObject({ code: 0, stderr: '' });
      }

      const [, serve = ''] = /^ {2}npx admin-mirror (serve .*)$/m.exec(advice) ?? [];
      const args = [...serve.split(' '), '--listen', '127.0.0.1:0', '--json'];
      const console = startCli(args, { folder: folder.path });
      const [line] = (await once(console.stdout, 'data')) as [string];
      const { first_account: first } = JSON.parse(line) as { readonly first_account: string };
      expect(await (await fetch(first)).text()).toContain('The first account');
      console.kill('SIGTERM');
      expect(await finished(console)).toMatchObject({ code: 0, stderr: '' });

      expect(await isServed(/http:\/\/127\.0\.0\.1:\d+/.exec(stdout)?.[0] ?? '')).toBe(false);
    },
  );

  test('starts fresh every time, whatever the environment and the config file say', { tags: 'full' }, async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'config'));
    writeFileSync(join(folder, 'config/admin-mirror.yaml'), 'profiles:\n  mine:\n    history: {keep: 1s}\n');
    const environment = {
      ADMIN_MIRROR_BASE_URL: 'https://panel.example.com',
      ADMIN_MIRROR_API_KEY_FILE: 'none',
      ADMIN_MIRROR_DB: 'mine.db',
      ADMIN_MIRROR_SYNC_REQUESTS_PER_RUN: '3',
    };
    const told = ({ stdout }: { stdout: string }) => stdout.match(/^(users|packages|emails|coupons) .*complete.*\d/gm);
    const first = await runCli(['demo'], { folder, environment });
    const second = await runCli(['demo'], { folder });
    expect([first.code, second.code]).toEqual([0, 0]);
    const counts = (lines: string[] | null) => lines?.map((line) => line.split(/ +/).slice(0, 6));
    expect(counts(told(first))).toHaveLength(8);
    expect(counts(told(second))).toEqual(counts(told(first)));
    expect(readdirSync(folder)).toEqual(['config', 'data']);
  });

  test('names the command that failed, and ends with its code', async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, '.env'), 'ADMIN_MIRROR_HISTORY_KEEP=soon\n');
    const { code, stderr } = await runCli(['demo'], { folder });
    expect(code).toBe(2);
    expect(stderr).toContain('history.keep');
    expect(stderr).toContain('error: the demo stopped, because its command "sync" ended with exit code 2\n');
  });
});
