import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { hourMs } from '../../src/model/time.ts';
import { readSettings } from '../../src/settings/settings.ts';
import { textOf } from '../support/documents.ts';
import { invoke } from '../support/invoke.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

function folderWith(file: string): string {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, 'config/admin-mirror.yaml'), file);
  return folder;
}

function read(file: string, environment: Record<string, string> = {}) {
  const { settings, problems, warnings } = readSettings({ flags: [], environment, folder: folderWith(file) });
  const words = problems.map(({ message, advice }) => `${message}. ${advice ?? ''}`.trim());
  return { approval: settings?.bulk.approval, words, warnings };
}

const balance = 'bulk:\n  approval:\n    balance:\n';

describe('bulk.approval', () => {
  test('is empty if the config file does not set it', () => {
    expect(read('bulk:\n  concurrency: 2\n').approval).toEqual({});
    expect(read('bulk:\n  approval:\n').approval).toEqual({});
  });

  test('is read for each action, with exact amounts and durations in ms', () => {
    const lines = [
      'row_amount: 99.50',
      'net: "5000.00"',
      'gross: 10000',
      'rows: 0',
      'alone_per_day: 2000',
      'approvers: 3',
    ];
    const text = `${balance}${lines.map((line) => `      ${line}\n`).join('')}    delete: {}\n`;
    const none = { rowAmount: undefined, net: undefined, gross: undefined, rows: undefined, alonePerDay: undefined };
    expect(read(text)).toEqual({
      words: [],
      warnings: [],
      approval: {
        balance: {
          rowAmount: '99.5',
          net: '5000.00',
          gross: '10000',
          rows: 0,
          alonePerDay: '2000',
          approvers: 3,
          goodForMs: 72 * hourMs,
        },
        delete: { ...none, approvers: 1, goodForMs: 72 * hourMs },
      },
    });
  });

  test.each([
    ['approvers: 4', 'approvers is 4: expected a whole number from 1 to 3'],
    ['approvers: 0', 'approvers is 0: expected a whole number from 1 to 3'],
    ['net: .nan', 'net is NaN: expected an amount such as 500 or 99.50'],
    ['net: -5', 'net is -5: expected an amount such as 500 or 99.50'],
    ['gross: much', 'gross is "much": expected an amount such as 500 or 99.50'],
    ['rows: 1.5', 'rows is 1.5: expected a whole number from 0'],
    ['good_for: 3', 'good_for is 3: expected a duration above 0 such as 30s, 10m or 48h'],
    ['good_for: 0s', 'good_for is "0s": expected a duration above 0 such as 30s, 10m or 48h'],
  ])('%s is refused with its line', (line, words) => {
    expect(read(`${balance}      ${line}\n`).words).toEqual([
      `config/admin-mirror.yaml:4: bulk.approval.balance: ${words}. Correct it there.`,
    ]);
  });

  test('of a profile replaces the common one for the same action', () => {
    const profiles =
      'profile: shop\nprofiles:\n  shop:\n    bulk:\n      approval:\n        balance:\n          rows: 7\n';
    const { approval, words } = read(`${balance}      net: 5\n    email: {}\n${profiles}`);
    expect(words).toEqual([]);
    expect(approval?.balance).toMatchObject({ net: undefined, rows: 7 });
    expect(Object.keys(approval ?? {})).toEqual(['balance', 'email']);
  });

  test('is shown by `config` with its line', async () => {
    const folder = folderWith(`${balance}      net: 5000\n`);
    expect((await invoke(['config'], { folder })).stdout).toMatch(
      /^bulk\.approval\.balance +net 5000, approvers 1, good_for 3d +config\/admin-mirror\.yaml:3$/m,
    );
    const { stdout } = await invoke(['config', '--json'], { folder });
    const shown = (JSON.parse(stdout) as { settings: Record<string, { value: unknown }> }).settings;
    expect(shown['bulk.approval.balance']?.value).toEqual({ net: '5000', approvers: 1, good_for: '3d' });
  });

  test('of the example file is accepted if uncommented', () => {
    const example = textOf('config/admin-mirror.example.yaml');
    const lines = example.slice(example.indexOf('  # approval:')).split('\n');
    const opened = lines.slice(0, lines.indexOf('')).map((line) => line.replace('# ', ''));
    const { approval, words } = read(`bulk:\n${opened.join('\n')}\n`);
    expect(words).toEqual([]);
    expect(Object.keys(approval ?? {})).toEqual(['balance', 'delete']);
  });
});
