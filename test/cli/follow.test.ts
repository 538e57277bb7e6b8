/** Changes followed by cursor: printed while another process syncs, or exported since last time. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DuckDBInstance } from '@duckdb/node-api';
import { describe, expect, onTestFinished, test } from 'vitest';
import { hourMs, systemClock } from '../../src/model/time.ts';
import { forgetUser, openForgetStore } from '../../src/mirror/forget.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { finished, runCli, startCli } from '../support/cli.ts';
import { cursorOf } from '../support/consumer.ts';
import { withSnapshot } from '../support/history.ts';
import { mirroredFolder, sync } from '../support/mirror.ts';
import { changesSince } from '../../src/data/changes.ts';

const small = { users: 12, packages: 2, emails: 4, coupons: 3 } as const;
const historyIgnore = ['last_seen_at'];

/** A mirror that was read an hour ago, and a function that syncs it again. */
async function world() {
  const { sandbox, folder, file } = await mirroredFolder(small, { historyIgnore });
  const again = async () => {
    sandbox.control.advanceClock(hourMs);
    await sync(sandbox, file, { mode: 'full', historyIgnore });
  };
  return { ...sandbox, folder, file, again };
}

/** The lines of the command's standard output, one by one. */
function following(folder: string, ...args: string[]) {
  const child = startCli(['changes', '--follow', '--json', ...args], { folder });
  onTestFinished(() => void child.kill('SIGKILL'));
  const ended = finished(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<Record<string, unknown>> => {
    const { value, done } = await lines.next();
    if (done === true) throw new Error(`it ended: ${(await ended).stderr}`);
    return JSON.parse(value) as Record<string, unknown>;
  };
  const stop = async () => {
    child.kill('SIGINT');
    return ended;
  };
  return { next, stop };
}

describe('changes --follow', () => {
  test('prints what another process syncs, and continues from the cursor it ended with', { tags: 'full' }, async () => {
    const { control, folder, file, again } = await world();
    const first = following(folder);
    expect(await first.next()).toEqual({ cursor: cursorOf(file) });
    control.update('users', 3, { balance: 77 });
    await again();
    expect(await first.next()).toMatchObject({
      resource: 'users',
      id: 3,
      change: 'updated',
      fields: { balance: { new: 77 } },
    });
    expect(await first.next()).toEqual({ cursor: cursorOf(file) });
    const { code, stderr } = await first.stop();
    expect(code).toBe(130);
    expect(stderr).toContain(`continue with --since ${cursorOf(file)}`);

    const cursor = cursorOf(file);
    control.remove('coupons', 2);
    await again();
    const second = following(folder, '--since', cursor);
    expect(await second.next()).toMatchObject({ resource: 'coupons', id: 2, change: 'deleted' });
    expect(await second.next()).toEqual({ cursor: cursorOf(file) });
    await second.stop();
  });

  test.each([
    [['--follow', '--until', '1d'], '--follow runs until it is stopped'],
    [['users', '--follow', '--id', '4'], '--follow shows all records'],
    [['--since', '0123456789ab.0123456789ab.7'], 'is a cursor, which needs --follow'],
    [['--follow', '--since', '0123456789ab.0123456789ab.7'], 'the cursor is from another mirror'],
  ])('refuses %j', async (args, message) => {
    const { folder } = await mirroredFolder({ users: 1, packages: 0, emails: 0, coupons: 0 });
    const { code, stderr } = await runCli(['changes', ...args], { folder });
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  test('sums up the changes of each record, without ignored fields', async () => {
    const { control, file, again } = await world();
    const before = cursorOf(file);
    control.update('users', 1, { last_seen_at: '2026-03-12T00:00:00.000000Z' });
    control.update('users', 2, { balance: 5 });
    const { id: come } = control.insert('users', { username: 'new.comer' });
    control.remove('users', 4);
    control.remove('users', 9);
    control.insert('users', { id: 9, username: 'another', created_at: '2025-01-05T10:00:00.000000Z' });
    await again();
    control.update('users', 2, { balance: 6 });
    control.update('users', Number(come), { balance: 7 });
    await again();
    const store = openForgetStore(file, systemClock, 50);
    await forgetUser({ store, journal: 'none', clock: systemClock }, 5);
    store.close();
    const told = withSnapshot(file, (snapshot) => {
      const request = { resources: ['users'], ignore: [...historyIgnore, 'updated_at'], newest: undefined } as const;
      return [...changesSince(snapshot, { ...request, after: snapshot.seqOf(before) })];
    });
    const lines = told.map(({ id, change, fields }) => [
      Number(id),
      change,
      change === 'updated' ? fields.map((each) => [each.field, each.new.json]) : fields.length > 0,
    ]);
    const byId = (one: readonly unknown[], other: readonly unknown[]) => Number(one[0]) - Number(other[0]);
    expect(lines.toSorted(byId)).toEqual([
      [2, 'updated', [['balance', '6']]],
      [4, 'deleted', true],
      // Nothing is shown of a person who was forgotten.
      [5, 'deleted', false],
      [9, 'deleted', true],
      [9, 'inserted', true],
      [Number(come), 'inserted', true],
    ]);
    const seqs = told.map(({ seq }) => seq);
    expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
  });
});

describe('export --changed-since', () => {
  const exported = async (folder: string, ...args: string[]) => {
    const { code, stdout, stderr } = await runCli(['export', ...args, '--json'], { folder });
    expect([code, stderr]).toEqual([0, '']);
    return JSON.parse(stdout) as {
      cursor: string;
      changed_since: string;
      rows: number;
      files?: { table: string; rows: number }[];
    };
  };

  test.each(['csv', 'jsonl', 'parquet'] as const)(
    'writes changed rows and the ids of deleted ones as %s',
    async (format) => {
      const { control, folder, again, file } = await world();
      const args = ['users', '--columns', 'balance', '--format', format, '-o', `users.${format}`];
      const whole = await exported(folder, ...args, '--changed-since', '0');
      expect(whole).toMatchObject({ rows: 12, changed_since: '0', cursor: cursorOf(file) });
      control.update('users', 3, { balance: 77.5 });
      control.remove('users', 4);
      await again();
      expect(await exported(folder, ...args, '--changed-since', whole.cursor)).toMatchObject({ rows: 2 });
      const { stderr } = await runCli(['export', ...args, '--changed-since', whole.cursor], { folder });
      expect(stderr).toContain('continue with --changed-since');
      const path = join(folder, `users.${format}`);
      const read = {
        csv: () => readFileSync(path, 'utf8'),
        jsonl: () =>
          readFileSync(path, 'utf8')
            .trim()
            .split('\n')
            .map((line) => JSON.parse(line) as unknown),
        parquet: async () => {
          const connection = await (await DuckDBInstance.create(':memory:')).connect();
          const read = await connection.runAndReadAll(
            `SELECT id, CAST(balance AS DOUBLE) AS balance, _deleted FROM read_parquet('${path}')`,
          );
          connection.closeSync();
          return read.getRowObjects();
        },
      };
      const objects = [
        { id: 3, balance: 77.5, _deleted: 0 },
        { id: 4, balance: null, _deleted: 1 },
      ];
      const expected = {
        csv: 'id,balance,_deleted\n3,77.5,0\n4,,1\n',
        jsonl: objects,
        parquet: objects.map((row) => ({ ...row, id: BigInt(row.id), _deleted: BigInt(row._deleted) })),
      };
      expect(await read[format]()).toEqual(expected[format]);
    },
  );

  test('writes changes of every table with --all, and the cursor into the manifest', { tags: 'full' }, async () => {
    const { control, folder, again, file } = await world();
    const whole = await runCli(['export', '--all', '-o', 'all', '--json'], { folder });
    const { cursor } = JSON.parse(whole.stdout) as { cursor: string };
    expect(cursor).toBe(cursorOf(file));
    control.remove('coupons', 1);
    await again();
    const report = await exported(folder, '--all', '-o', 'all', '--changed-since', cursor);
    expect(report).toMatchObject({ changed_since: cursor, cursor: cursorOf(file) });
    expect(report.files?.filter(({ rows }) => rows > 0).map(({ table, rows }) => [table, rows])).toEqual([
      ['coupons', 1],
      ['coupons_history', 1],
      ['mirror_freshness', 4],
    ]);
    expect(JSON.parse(readFileSync(join(folder, 'all', 'manifest.json'), 'utf8'))).toEqual(report);
    expect(readFileSync(join(folder, 'all', 'coupons.csv'), 'utf8')).toMatch(/_deleted\n1,.*,1\n$/);
  });

  test.each([
    [['users', '--where', 'id > 3'], "--changed-since <cursor>' cannot be used with option '--where"],
    [['users', '--order', 'id'], "--changed-since <cursor>' cannot be used with option '--order"],
    [['users', '--as-of', '1h'], "--changed-since <cursor>' cannot be used with option '--as-of"],
    [['report:revenue-by-day'], 'a report is computed from all rows'],
    [['mirror_runs'], 'mirror_runs has no change cursor'],
    [['--sql', 'SELECT 1'], "--sql <sql>' cannot be used with option '--changed-since"],
  ])('refuses %j', async (args, message) => {
    const { folder } = await mirroredFolder({ users: 1, packages: 0, emails: 0, coupons: 0 });
    const { code, stderr } = await runCli(['export', ...args, '--changed-since', '0'], { folder });
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  test('refuses a cursor that is too old, and writes nothing', async () => {
    const { folder, file } = await world();
    const database = openMirrorFile(file);
    database.exec('UPDATE mirror_cursor SET deletions_from = seq');
    database.close();
    const cursor = cursorOf(file).replace(/\d+$/, '1');
    for (const args of [
      ['users', '-o', 'users.csv'],
      ['--all', '-o', 'all'],
    ]) {
      const { code, stderr } = await runCli(['export', ...args, '--changed-since', cursor], { folder });
      expect([code, stderr]).toEqual([2, expect.stringMatching(/older than the deletions[\s\S]*Start anew/)]);
    }
  });
});
