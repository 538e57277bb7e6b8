// @module-tag full
/** What a run leaves behind: the log is folded in, and the disk is not filled. */
import { existsSync, statSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { mirrored, newMirror, sync } from '../support/mirror.ts';
import { rowsOf, valuesOf } from '../support/rows.ts';

describe('the log of the mirror', () => {
  test('is folded in at the end of a run, and the statistics hold no samples of the data', async () => {
    const { file } = await mirrored();
    expect(existsSync(`${file}-wal`) ? statSync(`${file}-wal`).size : 0).toBe(0);
    const known = valuesOf<string>(file, "SELECT name FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'");
    const samples = known.filter((name) => name !== 'sqlite_stat1');
    expect(samples.flatMap((name) => rowsOf(file, `SELECT * FROM "${name}"`))).toEqual([]);
  });
});

describe('a disk without room', () => {
  test('ends the run in order, with the space that is left and where, and the next run continues', async () => {
    const { sandbox, file } = await newMirror({ users: 3_000, emails: 0, packages: 0, coupons: 0 });
    const tried = { resources: ['users'], pageSize: 100, windowPages: 3, concurrency: 1 } as const;
    let looks = 0;
    const freeSpace = () => ((looks += 1) > 10 ? 99e6 : 101e6);
    const { report, error } = await sync(sandbox, file, { ...tried, freeSpace });
    expect(error).toMatchObject({ exitCode: 2, message: expect.stringMatching(/^no room to sync: 99 MB are left on/) });
    expect(report.resources.users).toMatchObject({ status: 'partial', problem: error?.message });
    expect(report.resources.users?.received).toBeGreaterThan(0);
    expect((await sync(sandbox, file, tried)).report.status).toBe('complete');
  });
});
