// @module-tag full
/** What a run leaves behind: the log is folded in, and the disk is not filled. */
import { existsSync, statSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { sync } from '../support/mirror.ts';
import { rowsOf } from '../support/relations.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const newFile = (): string => `${temporaryFolder()}/mirror.db`;

describe('the log of the mirror', () => {
  test('is folded in at the end of a run, and the statistics hold no samples of the data', async () => {
    const sandbox = await startSandbox();
    const file = newFile();
    await sync(sandbox, file);
    expect(existsSync(`${file}-wal`) ? statSync(`${file}-wal`).size : 0).toBe(0);
    const known = rowsOf<{ name: string }>(file, "SELECT name FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'");
    const samples = known.filter(({ name }) => name !== 'sqlite_stat1');
    expect(samples.flatMap(({ name }) => rowsOf(file, `SELECT * FROM "${name}"`))).toEqual([]);
  });
});

describe('a disk without room', () => {
  test('ends the run in order, with the space that is left and where, and the next run continues', async () => {
    const sandbox = await startSandbox({ users: 3_000, emails: 0, packages: 0, coupons: 0 });
    const file = newFile();
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
