// @module-tag full
/**
 * Lists that show foreign records: those of another list, or two records under one id. No row is overwritten by a record that is
 * not its own, and the run says so.
 */
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { resourceNames } from '../../src/model/resources.ts';
import { hourMs } from '../../src/model/time.ts';
import { expectMirrored, mirrored, sync, type SyncTry } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { verifyMirror } from '../support/verify.ts';

function rowsIn<T>(file: string, sql: string): T[] {
  const database = new SqliteDatabase(file, { readonly: true });
  try {
    return database.prepare<[], T>(sql).all();
  } finally {
    database.close();
  }
}

const eventsIn = (file: string, kind: string) =>
  rowsIn<{ resource: string; subject: string; detail: string }>(
    file,
    `SELECT resource, subject, detail FROM mirror_events WHERE kind = '${kind}' ORDER BY resource, subject`,
  );

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
    expect(eventsIn(file, 'foreign_records')[0]).toMatchObject({ resource: name });
    expect((await verifyMirror(sandbox, file, { deep: true })).error?.exitCode).not.toBe(0);
    sandbox.control.setBehaviour({ lists_of: '' });
    expect((await sync(sandbox, file)).report.status).toBe('complete');
    expectMirrored(sandbox, file);
    expect(rowsIn(file, `SELECT id FROM ${name}_history`)).toEqual([]);
  });

  test('writes no row into a new mirror, and a sync of only that list ends with 5', async () => {
    const sandbox = await startSandbox({ behaviour: { lists_of: 'users:emails' } });
    const file = `${temporaryFolder()}/mirror.db`;
    const { report, error } = await sync(sandbox, file, { resources: ['users'] });
    expect([report.status, error?.exitCode]).toEqual(['failed', 5]);
    expect(rowsIn(file, 'SELECT id FROM users')).toEqual([]);
    // Without six attempts for each page.
    expect(report.requests).toBeLessThan(20);
  });
});

describe('two records under one id', () => {
  test.each([
    ['on one page', 1_000],
    ['on two pages of a window', 10],
  ])('%s leave the first in place and the window unsettled, with an event that names the id', async (_, pageSize) => {
    const tried = { pageSize, resources: ['users'] } as const;
    const { sandbox, file } = await mirrored({ users: 60 }, tried);
    // A row that was replaced for a moment gets a new number, so that readers get it once more, unchanged.
    const rows = () => rowsIn<object>(file, 'SELECT * FROM users ORDER BY id').map((row) => ({ ...row, _seq: null }));
    const before = rows();
    // 40 was created long before 20, and one walk sees both.
    sandbox.control.setBehaviour({ same_ids: 'users:40:20' });
    for (const mode of ['default', 'full'] as const) {
      const { report, error } = await sync(sandbox, file, { ...tried, mode });
      expect(error?.exitCode).toBe(5);
      expect(report.resources.users).toMatchObject({ status: 'partial', updated: 0, deleted: 0 });
      expect(report.resources.users?.problem).toMatch(/different records have the same id: 20/);
    }
    expect(rows()).toEqual(before);
    expect(eventsIn(file, 'duplicate_id')).toEqual([expect.objectContaining({ resource: 'users', subject: '20' })]);
    sandbox.control.setBehaviour({ same_ids: '' });
    expect((await sync(sandbox, file, tried)).report.status).toBe('complete');
    expectMirrored(sandbox, file, ['users']);
    expect(rowsIn(file, 'SELECT id FROM users_history')).toEqual([]);
  });

  test('in two windows do not replace each other from run to run', async () => {
    const tried = { pageSize: 10, windowPages: 1, resources: ['users'] } as const;
    const { sandbox, file } = await mirrored({ users: 200 }, tried);
    sandbox.control.setBehaviour({ same_ids: 'users:150:20' });
    const statuses: (number | undefined)[] = [];
    for (let night = 0; night < 3; night += 1) {
      statuses.push((await sync(sandbox, file, { ...tried, mode: 'full' })).error?.exitCode);
      sandbox.control.advanceClock(hourMs);
    }
    expect(statuses).toEqual([5, 5, 5]);
    sandbox.control.setBehaviour({ same_ids: '' });
    await sync(sandbox, file, { ...tried, mode: 'full' });
    expectMirrored(sandbox, file, ['users']);
  });

  test('count as one record that changed between two pages if one update is newer', async () => {
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
    await sync(sandbox, file, { ...tried, mode: 'full', onEvent });
    expect(eventsIn(file, 'duplicate_id')).toEqual([]);
    await sync(sandbox, file, tried);
    expectMirrored(sandbox, file, ['users']);
  });
});
