// @module-tag full
/**
 * Lists that show foreign records: those of another list, or two records under one id. The list is incomplete, and the run
 * says so.
 */
import { describe, expect, test } from 'vitest';
import { resourceNames } from '../../src/model/resources.ts';
import { hourMs } from '../../src/model/time.ts';
import { eventsOf, expectMirrored, mirrored, newMirror, sync, type SyncTry } from '../support/mirror.ts';
import { verifyMirror } from '../support/verify.ts';
import { rowsOf } from '../support/rows.ts';

describe('a list that shows the records of another', () => {
  const pairs = resourceNames.flatMap((name) =>
    resourceNames.filter((other) => other !== name).map((other) => [name, other] as const),
  );

  // proves: foreign-list
  test.each(pairs)('%s that show %s write nothing, and the run ends with 5', async (name, other) => {
    const { sandbox, file } = await mirrored();
    sandbox.control.setBehaviour({ lists_of: `${name}:${other}` });
    for (const mode of ['default', 'full', 'quick'] as const) {
      const { report, error } = await sync(sandbox, file, { mode });
      expect(error?.exitCode).toBe(5);
      expect(report.resources[name]).toMatchObject({ inserted: 0, updated: 0, deleted: 0 });
      expect(report.resources[name]?.status).not.toBe('complete');
      expect(report.resources[name]?.problem).toMatch(new RegExp(`is not a list of ${name}: .* look like ${other}`));
    }
    expectMirrored(sandbox, file);
    expect(eventsOf(file, 'foreign_records')[0]).toMatchObject({ resource: name });
    expect((await verifyMirror(sandbox, file, { deep: true })).error?.exitCode).not.toBe(0);
    sandbox.control.setBehaviour({ lists_of: '' });
    expect((await sync(sandbox, file)).report.status).toBe('complete');
    expectMirrored(sandbox, file);
    expect(rowsOf(file, `SELECT id FROM ${name}_history`)).toEqual([]);
  });

  test('writes no row into a new mirror, and a sync of only that list ends with 5', async () => {
    const { sandbox, file } = await newMirror({ behaviour: { lists_of: 'users:emails' } });
    const { report, error } = await sync(sandbox, file, { resources: ['users'] });
    expect([report.status, error?.exitCode]).toEqual(['failed', 5]);
    expect(rowsOf(file, 'SELECT id FROM users')).toEqual([]);
    // Without six attempts for each page.
    expect(report.requests).toBeLessThan(20);
  });
});

describe('two records under one id', () => {
  test.each([
    ['on one page', { pageSize: 1_000 }],
    ['on two pages of a window', { pageSize: 10 }],
    ['in two windows', { pageSize: 10, windowPages: 1 }],
  ])('%s leave the list incomplete, and the next run repairs the row', async (_, shape) => {
    const tried = { ...shape, resources: ['users'] } as const;
    const { sandbox, file } = await mirrored({ users: 60 }, tried);
    // 40 was created long before 20.
    sandbox.control.setBehaviour({ same_ids: 'users:40:20' });
    for (const mode of ['default', 'full', 'full'] as const) {
      const { report, error } = await sync(sandbox, file, { ...tried, mode });
      expect(error?.exitCode).toBe(5);
      expect(report.resources.users).toMatchObject({ status: 'partial', deleted: 0 });
      sandbox.control.advanceClock(hourMs);
    }
    sandbox.control.setBehaviour({ same_ids: '' });
    expect((await sync(sandbox, file, { ...tried, mode: 'full' })).report.status).toBe('complete');
    expectMirrored(sandbox, file, ['users']);
  });

  test('are not seen where one record changed and moved between two pages', async () => {
    const tried = { pageSize: 10, resources: ['users'] } as const;
    const { sandbox, file } = await mirrored({ users: 60 }, tried);
    let pages = 0;
    const onEvent: SyncTry['onEvent'] = ({ kind }) => {
      if (kind !== 'page') return;
      pages += 1;
      // Pages are read from the last one on. The first record of page 6 moves to page 5 and changes.
      if (pages !== 1) return;
      const byTime = sandbox.control
        .dump('users')
        .sort((a, b) => (String(a['created_at']) < String(b['created_at']) ? -1 : 1));
      sandbox.control.remove('users', Number(byTime[3]?.['id']));
      sandbox.control.advanceClock(1_000);
      sandbox.control.update('users', Number(byTime[50]?.['id']), { first_name: 'Newer' });
    };
    const { report } = await sync(sandbox, file, { ...tried, mode: 'full', onEvent });
    expect(report.status).toBe('complete');
    expectMirrored(sandbox, file, ['users']);
  });
});
