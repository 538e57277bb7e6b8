/** The change cursor: which changes get a number, and which cursors are refused. */
import { copyFileSync, rmSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { forgetUser, openForgetStore, undoForget } from '../../src/mirror/forget.ts';
import { dayMs, hourMs, systemClock } from '../../src/model/time.ts';
import { startCursor } from '../../src/store/cursor.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { changedRows } from '../support/changed-rows.ts';
import { consumerOf, cursorOf, refusalOf } from '../support/consumer.ts';
import { withSnapshot } from '../support/history.ts';
import { mirrored, sync } from '../support/mirror.ts';
import { alter, rowsOf } from '../support/rows.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const small = { users: 12, packages: 3, emails: 6, coupons: 4 } as const;
const includes = { users: ['orders'] };

/** By table: the rows that came or changed, and those that went, after the cursor. */
function changesSince(file: string, cursor: string): Record<string, { rows: number[]; gone: string[] }> {
  return withSnapshot(file, (snapshot) => {
    const after = snapshot.seqOf(cursor);
    const changes = snapshot.numberedTables().flatMap((table) => {
      const { rows, deleted } = changedRows(snapshot, table, after, 1_000);
      if (rows.length + deleted.length === 0) return [];
      return [[table.name, { rows: rows.map((row) => Number(row[0])), gone: deleted.map(String) }] as const];
    });
    return Object.fromEntries(changes);
  });
}

/** Replaces the file with a copy, as a restore does. */
function restore(from: string, to: string): void {
  for (const end of ['-wal', '-shm']) rmSync(`${to}${end}`, { force: true });
  copyFileSync(from, to);
}

describe('a change gets a number', () => {
  test('if a record came, changed or went, but not if it is read again unchanged', async () => {
    const { sandbox, file } = await mirrored(small);
    const before = cursorOf(file);
    await sync(sandbox, file, { mode: 'full' });
    expect(changesSince(file, before)).toEqual({});
    expect(cursorOf(file)).toBe(before);
    sandbox.control.update('users', 3, { balance: 77 });
    sandbox.control.remove('coupons', 2);
    const { id } = sandbox.control.insert('packages', {});
    await sync(sandbox, file, { mode: 'full' });
    expect(changesSince(file, before)).toEqual({
      users: { rows: [3], gone: [] },
      users_history: { rows: [3], gone: [] },
      packages: { rows: [id], gone: [] },
      coupons: { rows: [], gone: ['2'] },
      coupons_history: { rows: [2], gone: [] },
    });
    const all = changesSince(file, startCursor);
    expect(all['users']?.rows.toSorted((a, b) => a - b)).toEqual(
      rowsOf(file, 'SELECT id FROM users ORDER BY id').map(({ id }) => id),
    );
  });

  test('if another program wrote to the file', async () => {
    const { sandbox, file } = await mirrored(small);
    const before = cursorOf(file);
    const program = openMirrorFile(file);
    program.exec(
      `UPDATE users SET first_name = 'x' WHERE id = 4; DELETE FROM users WHERE id = 5;
       INSERT INTO users (id, _first_seen_at, _changed_at) VALUES (900, '', ''), (901, '', '')`,
    );
    program.close();
    expect(changesSince(file, before)).toMatchObject({ users: { rows: [4, 900, 901], gone: ['5'] } });
    // Rows of a program without this program's functions are numbered by the next run.
    alter(file, "INSERT INTO users (id, _first_seen_at, _changed_at) VALUES (902, '', ''), (903, '', '')");
    alter(file, 'DELETE FROM users WHERE id = 6');
    await sync(sandbox, file, { mode: 'full' });
    // That run also removes the rows that the server does not have.
    const { users, users_history: history } = changesSince(file, before);
    expect(users?.rows.toSorted((a, b) => a - b)).toEqual([4, 5, 6]);
    expect(users?.gone.toSorted()).toEqual(['900', '901', '902', '903']);
    expect(history?.rows.toSorted((a, b) => a - b)).toEqual([4, 900, 901, 902, 903]);
    expect(rowsOf(file, 'SELECT id FROM users WHERE _seq = 0')).toEqual([]);
  });

  test('if a related record came, changed or went, by itself or with its parent', async () => {
    const { sandbox, file } = await mirrored(small, { includes });
    const parents = () => rowsOf<{ user_id: number; id: string }>(file, 'SELECT user_id, id FROM user_orders');
    const [first, ...others] = parents();
    const other = others.find(({ user_id: id }) => id !== first?.user_id);
    if (first === undefined || other === undefined) throw new Error('the sandbox has no orders');
    const before = cursorOf(file);
    await sync(sandbox, file, { mode: 'full', includes });
    expect(changesSince(file, before)).toEqual({});
    const left = sandbox.control.related('users', first.user_id, 'orders').slice(1);
    sandbox.control.setRelated('users', first.user_id, 'orders', [...left, { id: 77_001, status: 'new' }]);
    sandbox.control.remove('users', other.user_id);
    await sync(sandbox, file, { mode: 'full', includes });
    const changes = changesSince(file, before)['user_orders'];
    const gone = others.filter(({ user_id: id }) => id === other.user_id).map(({ id }) => `${other.user_id},${id}`);
    expect(changes?.rows).toEqual([first.user_id]);
    expect(changes?.gone.toSorted()).toEqual([`${first.user_id},${first.id}`, ...gone].toSorted());
  });

  test('if a person is forgotten, with tombstones of ids only, and again if that is undone', async () => {
    const { sandbox, file } = await mirrored(small, { includes });
    sandbox.control.update('users', 5, { first_name: 'Zephyrine' });
    await sync(sandbox, file, { includes });
    const before = cursorOf(file);
    const consumer = consumerOf(file);
    consumer.read(100, () => false);
    const forgetting = async (back: boolean): Promise<void> => {
      const store = openForgetStore(file, systemClock, 50);
      if (back) await undoForget({ store, clock: systemClock }, '5');
      else await forgetUser({ store, journal: 'none', clock: systemClock }, 5);
      store.close();
    };
    await forgetting(false);
    const { users, users_history: versions } = changesSince(file, before);
    expect(users).toEqual({ rows: [], gone: ['5'] });
    expect(versions?.gone).toHaveLength(1);
    consumer.read(100, () => false);
    consumer.expectEqual();
    expect(rowsOf(file, 'SELECT * FROM mirror_deletions WHERE table_name = ?', 'users')).toEqual([
      { table_name: 'users', id: 5, key: '', seq: expect.any(Number) },
    ]);
    await forgetting(true);
    await sync(sandbox, file, { includes });
    expect(changesSince(file, before)['users']).toEqual({ rows: [5], gone: [] });
    consumer.read(100, () => false);
    consumer.expectEqual();
  });
});

describe('a cursor', () => {
  test('is refused by a mirror that was rebuilt', async () => {
    const { sandbox, file } = await mirrored(small);
    const before = cursorOf(file);
    for (const end of ['', '-wal', '-shm']) rmSync(`${file}${end}`);
    await sync(sandbox, file);
    expect(refusalOf(file, before)).toBe('other mirror');
    expect(refusalOf(file, startCursor)).toBeUndefined();
    expect(refusalOf(file, 'yesterday')).toBe('malformed');
  });

  test('is refused by a restored older copy if it is newer than the copy, however many runs follow', async () => {
    const { sandbox, file } = await mirrored(small);
    const copy = `${temporaryFolder()}/copy.db`;
    const atCopy = cursorOf(file);
    alter(file, `VACUUM INTO '${copy}'`);
    const again = async (balance: number) => {
      for (const id of [1, 2, 3]) sandbox.control.update('users', id, { balance });
      await sync(sandbox, file);
      return cursorOf(file);
    };
    const after = await again(5);
    restore(copy, file);
    expect(refusalOf(file, atCopy)).toBeUndefined();
    expect(refusalOf(file, after)).toBe('other copy');
    const second = await again(6);
    await again(7);
    expect(refusalOf(file, atCopy)).toBeUndefined();
    expect(refusalOf(file, after)).toBe('other copy');
    expect(refusalOf(file, second)).toBeUndefined();
    // The same copy is restored once more.
    restore(copy, file);
    await again(8);
    await again(9);
    expect(refusalOf(file, atCopy)).toBeUndefined();
    expect(refusalOf(file, second)).toBe('other copy');
  });

  test('is refused by a copy that was made during a run', async () => {
    const { sandbox, file } = await mirrored(small);
    const copy = `${temporaryFolder()}/copy.db`;
    let during = '';
    const onEvent = ({ kind, resource }: { readonly kind: string; readonly resource?: unknown }): void => {
      if (kind !== 'page' || resource !== 'users' || during !== '') return;
      alter(file, `VACUUM INTO '${copy}'`);
      during = cursorOf(file);
    };
    for (const name of ['users', 'packages', 'emails', 'coupons'] as const)
      sandbox.control.update(name, 1, { status: 'x' });
    sandbox.control.update('emails', 1, { subject: 'x' });
    sandbox.control.update('coupons', 1, { code: 'x' });
    await sync(sandbox, file, { mode: 'full', onEvent, concurrency: 1 });
    const after = cursorOf(file);
    expect(during).not.toBe('');
    expect(after).not.toBe(during);
    restore(copy, file);
    await sync(sandbox, file, { mode: 'full' });
    sandbox.control.update('users', 2, { status: 'y' });
    await sync(sandbox, file, { mode: 'full' });
    expect(refusalOf(file, after)).toBe('other copy');
  });

  test('is refused once deletions of its time are no longer kept', async () => {
    const { sandbox, file } = await mirrored(small);
    let at = sandbox.control.now();
    const later = async (ms: number): Promise<string> => {
      at += ms;
      sandbox.control.advanceClock(ms);
      sandbox.control.update('users', 3, { balance: at / 1_000 });
      await sync(sandbox, file, { mode: 'full', historyKeepMs: 10 * dayMs, clock: { now: () => at } });
      return cursorOf(file);
    };
    const first = cursorOf(file);
    sandbox.control.remove('users', 4);
    const second = await later(hourMs);
    const third = await later(8 * dayMs);
    expect([first, second].map((cursor) => refusalOf(file, cursor))).toEqual([undefined, undefined]);
    await later(dayMs);
    const buried = () => rowsOf(file, "SELECT id FROM mirror_deletions WHERE table_name = 'users'").length;
    expect(buried()).toBe(1);
    const last = await later(9 * dayMs + hourMs);
    expect(buried()).toBe(0);
    expect([first, second, third, last].map((cursor) => refusalOf(file, cursor))).toEqual([
      'too old',
      // All deletions after this one are still kept.
      undefined,
      undefined,
      undefined,
    ]);
    // Versions that were pruned by age leave no tombstone.
    expect(rowsOf(file, "SELECT * FROM mirror_deletions WHERE table_name = 'users_history'")).toEqual([]);
  });

  test('stays valid if a machine whose clock is far behind wrote in between', async () => {
    const { sandbox, file } = await mirrored(small);
    const synced = async (ms: number): Promise<string> => {
      const clock = { now: () => sandbox.control.now() + ms };
      sandbox.control.update('users', 3, { balance: ms / 1_000 + 7 });
      await sync(sandbox, file, { mode: 'full', historyKeepMs: 10 * dayMs, clock });
      return cursorOf(file);
    };
    const before = cursorOf(file);
    sandbox.control.remove('users', 4);
    await synced(hourMs);
    await synced(-400 * dayMs);
    await synced(2 * hourMs);
    expect(refusalOf(file, before)).toBeUndefined();
  });
});
