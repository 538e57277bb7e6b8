import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { invoke } from '../support/invoke.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

function folderWith(path: string) {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, path), 'profile: staging\nprofiles:\n  staging: {}\n  production: {}\n');
  return folder;
}

test.each([
  [[], 'npx admin-mirror --profile staging sync'],
  [['--profile', 'production'], 'npx admin-mirror --profile production sync'],
  [['--db', 'my data/m.db'], "npx admin-mirror --profile staging --db 'my data/m.db' sync"],
])('a command in an error can be pasted: %j', async (flags, command) => {
  const { stderr, code } = await invoke(['query', 'SELECT 1', ...flags], {
    folder: folderWith('config/admin-mirror.yaml'),
  });
  expect(code).toBe(2);
  expect(stderr).toContain(`Run \`${command}\` first`);
});

test('a command in the log can be pasted, with the config file that was given', async () => {
  const folder = folderWith('config/other.yaml');
  const environment = { ADMIN_MIRROR_BASE_URL_STAGING: 'http://127.0.0.1:9', ADMIN_MIRROR_API_KEY_STAGING: 'key' };
  await invoke(['verify', '--config', 'config/other.yaml', '--log-file', 'verify.log'], { folder, environment });
  const last = readFileSync(join(folder, 'verify.log'), 'utf8').trim().split('\n').at(-1) ?? '';
  expect((JSON.parse(last) as { readonly advice: string }).advice).toMatch(
    /`npx admin-mirror --config config\/other\.yaml --profile staging \w+/,
  );
});
