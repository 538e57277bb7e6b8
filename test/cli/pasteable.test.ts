import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { invoke } from '../support/invoke.ts';
import { sample } from '../support/part.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

function folderWith(path: string) {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, path), 'profile: staging\nprofiles:\n  staging: {}\n  production: {}\n');
  return folder;
}

const flagged = [
  [[], 'npx admin-mirror --profile staging sync'],
  [['--profile', 'production'], 'npx admin-mirror --profile production sync'],
  [['--db', 'my data/m.db'], "npx admin-mirror --profile staging --db 'my data/m.db' sync"],
] as const;
test.each(sample(flagged, 1))('a command in an error can be pasted: %j', async (flags, command) => {
  const { stderr, code } = await invoke(['query', 'SELECT 1', ...flags], {
    folder: folderWith('config/admin-mirror.yaml'),
  });
  expect(code).toBe(2);
  expect(stderr).toContain(`Run \`${command}\` first`);
});

test('names the config file that was given', async () => {
  const flags = ['--config', 'config/other.yaml'];
  const { stderr } = await invoke(['query', 'SELECT 1', ...flags], { folder: folderWith('config/other.yaml') });
  expect(stderr).toContain('`npx admin-mirror --config config/other.yaml --profile staging sync`');
});
