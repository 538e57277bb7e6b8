import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../src/model/errors.ts';
import { serverOf } from '../../src/settings/server.ts';
import { readSettings, settingsFrom } from '../../src/settings/settings.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const address = { ADMIN_MIRROR_BASE_URL: 'https://panel.example.com' };

function server(folder: string, environment: Record<string, string>) {
  return serverOf(settingsFrom(readSettings({ flags: [], environment, folder })));
}

function refusal(folder: string, environment: Record<string, string>): string {
  try {
    server(folder, environment);
  } catch (error) {
    if (error instanceof UsageError) return `${error.message} ${error.advice}`;
    throw error;
  }
  throw new Error('nothing was refused');
}

describe('the address and the key', () => {
  test('a missing address names every place where it can be set', () => {
    const words = refusal(temporaryFolder(), { ADMIN_MIRROR_API_KEY: 'abcdefgh' });
    for (const place of ['--base-url', 'ADMIN_MIRROR_BASE_URL', '.env', 'api.base_url']) expect(words).toContain(place);
  });

  test('a missing key names every place where it can be set', () => {
    const words = refusal(temporaryFolder(), address);
    for (const place of ['ADMIN_MIRROR_API_KEY ', 'ADMIN_MIRROR_API_KEY_FILE', '.env', 'api.key_file']) {
      expect(words).toContain(place);
    }
  });

  test('the key comes from the environment, or from the trimmed text of its file', () => {
    const folder = temporaryFolder();
    expect(server(folder, { ...address, ADMIN_MIRROR_API_KEY: 'from-environment' }).key.reveal()).toBe(
      'from-environment',
    );
    writeFileSync(join(folder, 'key.txt'), '  from-file\n', { mode: 0o600 });
    const { key, warnings } = server(folder, { ...address, ADMIN_MIRROR_API_KEY_FILE: 'key.txt' });
    expect(key.reveal()).toBe('from-file');
    expect(warnings).toEqual([]);
  });

  test('a key file that others can read gets a warning', () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'key.txt'), 'from-file');
    chmodSync(join(folder, 'key.txt'), 0o644);
    const { warnings } = server(folder, { ...address, ADMIN_MIRROR_API_KEY_FILE: 'key.txt' });
    expect(warnings).toEqual([expect.stringContaining('chmod 600')]);
  });

  test('a key file that is missing, a folder, empty or of two lines is refused by name', () => {
    const folder = temporaryFolder();
    const withFile = (name: string) => refusal(folder, { ...address, ADMIN_MIRROR_API_KEY_FILE: name });
    expect(withFile('none.txt')).toContain(`${join(folder, 'none.txt')} cannot be read: it does not exist`);
    mkdirSync(join(folder, 'folder'));
    expect(withFile('folder')).toContain('cannot be read: it is a folder');
    writeFileSync(join(folder, 'empty.txt'), ' \n');
    expect(withFile('empty.txt')).toContain('is empty');
    writeFileSync(join(folder, 'two.txt'), 'first-line\nsecond-line\n');
    const words = withFile('two.txt');
    expect(words).toContain('is not one word');
    expect(words).not.toContain('first-line');
  });

  test.each([['"s3cret"'], ["'s3cret'"], ['Bearer s3cret'], ['s3crét']])(
    'a key with a typing mistake, %j, is refused',
    (key) => {
      const words = refusal(temporaryFolder(), { ...address, ADMIN_MIRROR_API_KEY: key });
      expect(words).toContain('ADMIN_MIRROR_API_KEY is not one word of plain characters');
      expect(words).not.toContain('s3cr');
    },
  );

  test('settings are read without the key file if only other files are needed', () => {
    const folder = temporaryFolder();
    const reading = readSettings({ flags: [], environment: { ADMIN_MIRROR_API_KEY_FILE: 'none.txt' }, folder });
    expect(settingsFrom(reading).store.mirror).toBe(join(folder, 'data/mirror.db'));
  });
});
