// @module-tag full
/** A run may be stopped anywhere: from each state that it committed, a new process ends with the server's records. */
import SqliteDatabase from 'better-sqlite3';
import { expect, test } from 'vitest';
import { resourceNames } from '../../src/model/resources.ts';
import { dayMs } from '../../src/model/time.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import type { MirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { restore, watched, withoutEnd, type Checkpoint } from '../support/checkpoints.ts';
import { expectMirrored, sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { isSoak } from '../support/part.ts';

const pageSize = 9;
/** Small pages and windows, so that a run has many commits. */
const shape = { pageSize, windowPages: 2, concurrency: 3 } as const;

/** Runs a whole sync on `file` and returns every state that it committed. */
async function checkpointsOf(sandbox: Sandbox, file: string): Promise<Checkpoint[]> {
  let checkpoints: Checkpoint[] = [];
  const overStore = (opened: MirrorStore): MirrorStore => {
    const { store, checkpoints: met } = watched(opened, file);
    checkpoints = met;
    return store;
  };
  const { report } = await sync(sandbox, file, { ...shape, overStore });
  expect(report.status).toBe('complete');
  return checkpoints;
}

/** The end of a log that was not yet checkpointed may be lost in a power failure. */
function withPowerLoss(checkpoints: readonly Checkpoint[]): Checkpoint[] {
  const first = checkpoints[0]?.database;
  const cut = checkpoints.filter(
    ({ database, log }, index) => index % 5 === 0 && log.length > 0 && first !== undefined && database.equals(first),
  );
  return [...checkpoints, ...cut.map((each, index) => withoutEnd(each, ((index % 7) + 1) / 20))];
}

/** The failures from each of the states, in words; empty if every state ends equal to the server. */
async function failuresFrom(
  checkpoints: readonly Checkpoint[],
  sandbox: Sandbox,
  folder: string,
): Promise<readonly string[]> {
  const failures: string[] = [];
  // Every other one, including the last; the soak tests all.
  const chosen = [...checkpoints.entries()].filter(([at]) => isSoak || (checkpoints.length - 1 - at) % 2 === 0);
  for (const [index, checkpoint] of chosen) {
    const file = `${folder}/${index}.db`;
    const fail = (problem: unknown) => failures.push(`${index}, after ${checkpoint.step}: ${String(problem)}`);
    try {
      restore(checkpoint, file);
      const database = new SqliteDatabase(file, { readonly: true });
      const integrity: unknown = database.pragma('integrity_check', { simple: true });
      database.close();
      if (integrity !== 'ok') fail(integrity);
      const { report, error } = await sync(sandbox, file, shape);
      if (report.status !== 'complete') fail(error);
      expectMirrored(sandbox, file);
    } catch (error) {
      fail(error);
    }
  }
  return failures;
}

test('from every state of a first sync, the next one ends equal to the server', { timeout: 180_000 }, async () => {
  const sandbox = await startSandbox({ users: 40, packages: 6, emails: 30, coupons: 10, behaviour: { ties: 0.3 } });
  const folder = temporaryFolder();
  const checkpoints = await checkpointsOf(sandbox, `${folder}/mirror.db`);
  expect(checkpoints.length).toBeGreaterThan(40);
  expect(await failuresFrom(withPowerLoss(checkpoints), sandbox, folder)).toEqual([]);
});

test(
  'from every state of an incremental sync, the next one ends equal to the server',
  { timeout: 180_000 },
  async () => {
    const sandbox = await startSandbox({ users: 40, packages: 6, emails: 30, coupons: 10 });
    const { control } = sandbox;
    const folder = temporaryFolder();
    const file = `${folder}/mirror.db`;
    await sync(sandbox, file, shape);
    control.advanceClock(3 * dayMs);
    for (const resource of resourceNames) {
      control.insert(resource);
      control.insert(resource, { created_at: '2024-02-29T12:00:00.000000Z' });
      control.remove(resource, 2);
      control.remove(resource, 5);
    }
    control.update('users', 7, { first_name: 'Changed' });
    control.update('coupons', 3, { allowed_uses: 77 });
    const checkpoints = await checkpointsOf(sandbox, file);
    expect(checkpoints.length).toBeGreaterThan(30);
    expect(await failuresFrom(withPowerLoss(checkpoints), sandbox, folder)).toEqual([]);
  },
);
