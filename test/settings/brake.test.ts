import { describe, expect, test } from 'vitest';
import { readSettings } from '../../src/settings/settings.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

function read(brake: string) {
  const environment = { ADMIN_MIRROR_SYNC_BRAKE: brake };
  const { settings, problems } = readSettings({ flags: [], environment, folder: temporaryFolder() });
  return { brake: settings?.sync.brake, problems: problems.map(({ message }) => message) };
}

describe('the setting of the brake', () => {
  test.each([
    ['auto', {}],
    ['emails=90', { emails: 90 }],
    ['emails=90, coupons=5', { emails: 90, coupons: 5 }],
  ])('%s sets how many rows of each resource may be removed', (text, rows) => {
    expect(read(text).brake).toEqual(rows);
  });

  test.each(['emails', 'emails=0', 'emails=-1', 'mails=90', 'emails=20%', '90'])('%s is refused', (text) => {
    expect(read(text).problems).toEqual([expect.stringContaining(`sync.brake is "${text}"`)]);
  });
});
