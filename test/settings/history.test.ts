import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { dayMs } from '../../src/model/time.ts';
import { readSettings } from '../../src/settings/settings.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

function read({ file = '', environment = {} }: { file?: string; environment?: Record<string, string> }) {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, 'config/admin-mirror.yaml'), file);
  const { settings, problems } = readSettings({ flags: [], environment, folder });
  return { history: settings?.history, problems: problems.map(({ message, advice }) => `${message}\n${advice}`) };
}

const ignoring = (value: string) => read({ file: `history:\n  ignore: ${value}\n` });

describe('the history', () => {
  test('ignores fields that change with every visit, and keeps 400 days, by default', () => {
    expect(read({}).history).toEqual({
      ignore: ['last_seen_at', 'last_login_at', 'updated_at'],
      keepMs: 400 * dayMs,
    });
  });

  test.each([
    ['[updated_at, order]', ['updated_at', 'order']],
    ['updated_at, order', ['updated_at', 'order']],
    ['[_extra.last_ip]', ['_extra.last_ip']],
    ['[]', []],
    ['none', []],
    ['', ['last_seen_at', 'last_login_at', 'updated_at']],
  ])('ignores the fields of the config file: %s', (value, expected) => {
    expect(ignoring(value).history?.ignore).toEqual(expected);
  });

  test('ignores the fields of the environment', () => {
    const environment = { ADMIN_MIRROR_HISTORY_IGNORE: ' updated_at,balance ', ADMIN_MIRROR_HISTORY_KEEP: '30d' };
    expect(read({ environment }).history).toEqual({ ignore: ['updated_at', 'balance'], keepMs: 30 * dayMs });
    expect(read({ environment: { ADMIN_MIRROR_HISTORY_IGNORE: 'none' } }).history?.ignore).toEqual([]);
  });

  test.each([
    ['[updatd_at]', 'history.ignore is ["updatd_at"] (config/admin-mirror.yaml:2): expected names of fields'],
    ['updated_at, balnce', 'Did you mean "balance"?'],
    // The id of a record cannot change.
    ['id', 'expected names of fields'],
    ['_extra', 'expected names of fields'],
    ['5', 'expected names of fields'],
  ])('refuses to ignore %s, and suggests the nearest name', (value, words) => {
    const { problems } = ignoring(value);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(words);
  });

  test('cannot be kept for no time', () => {
    expect(read({ file: 'history:\n  keep: 0d\n' }).problems[0]).toContain('expected a duration');
  });
});
