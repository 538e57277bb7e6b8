import { describe, expect, test } from 'vitest';
import type { ResourceName } from '../../src/model/resources.ts';
import { dayMs, hourMs, later, minuteMs, timestampOf, type Clock, type Timestamp } from '../../src/model/time.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { tableRows, withSnapshot } from '../support/history.ts';
import { newMirror, sync, type SyncTry, underTriggers } from '../support/mirror.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { pageRows } from '../support/page-rows.ts';
import { alter, rowsOf, valuesOf } from '../support/rows.ts';

const resources = ['users', 'packages', 'coupons'] as const;
const usual = ['last_seen_at', 'last_login_at', 'updated_at'];

interface Version {
  readonly id: number;
  readonly change: string;
  readonly valid_from: string;
  readonly valid_to: string;
  readonly record: string;
}

const versionsIn = (file: string, resource: ResourceName) =>
  rowsOf<Version>(file, `SELECT * FROM ${resource}_history ORDER BY rowid`);

const rowIn = (file: string, resource: ResourceName, id: number) =>
  rowsOf(file, `SELECT * FROM ${resource} WHERE id = ?`, id)[0];

/** A clock that stands still until it is moved, here and on the server. */
function sharedClock(sandbox: Sandbox): Clock & { advance(ms: number): void; at(): Timestamp } {
  let now = sandboxNow;
  return {
    now: () => now,
    at: () => timestampOf(now),
    advance: (ms) => {
      now += ms;
      sandbox.control.advanceClock(ms);
    },
  };
}

async function begun(tried: SyncTry = {}) {
  const { sandbox, file } = await newMirror({ emails: 0 });
  const clock = sharedClock(sandbox);
  const again = (more: SyncTry = {}) =>
    sync(sandbox, file, { clock, resources, historyIgnore: usual, ...tried, ...more });
  const first = await again();
  expect(first.report.status).toBe('complete');
  return { control: sandbox.control, sandbox, clock, file, again };
}

test('the first sync makes no versions, and starts the history', async () => {
  const { file, clock } = await begun();
  expect(versionsIn(file, 'users')).toEqual([]);
  const reach = withSnapshot(file, (snapshot) => snapshot.historyReach('users'));
  expect(reach).toEqual({ beginsAt: clock.at(), wholeAt: clock.at() });
});

describe.each([
  // The mirror's times continue after the last one.
  { back: '2 hours', ms: 2 * hourMs, isBelieved: true },
  // The old time counts as wrong: only rows with that time keep it.
  { back: '2 days', ms: 2 * dayMs, isBelieved: false },
])('a clock that was set back by $back', ({ ms, isBelieved }) => {
  async function setBack() {
    const state = await begun();
    const first = state.clock.at();
    const behind = { now: () => state.clock.now() - ms };
    return { ...state, first, next: isBelieved ? later(first, 1) : first, behind };
  }

  test('ends no version before it began, and begins none before the previous one ended', async () => {
    const { control, file, first, next, behind, again } = await setBack();
    control.update('users', 5, { balance: 77.25 });
    control.remove('users', 6);
    control.remove('users', 7);
    await again({ mode: 'full', clock: behind });
    const ended = versionsIn(file, 'users').map(({ id, valid_from: from, valid_to: to }) => [id, from, to]);
    expect(ended.toSorted((a, b) => Number(a[0]) - Number(b[0]))).toEqual([5, 6, 7].map((id) => [id, first, next]));
    expect(rowIn(file, 'users', 5)).toMatchObject({ _first_seen_at: first, _changed_at: next });
    control.insert('users', { id: 6 });
    control.insert('users', { id: 9_000 });
    await again({ mode: 'full', clock: behind });
    const again6 = isBelieved ? later(next, 1) : next;
    expect(rowIn(file, 'users', 6)).toMatchObject({ _first_seen_at: again6, _changed_at: again6 });
    // A record without earlier versions.
    const came = isBelieved ? again6 : timestampOf(behind.now());
    expect(rowIn(file, 'users', 9_000)).toMatchObject({ _first_seen_at: came, _changed_at: came });
  });

  test('begins another record under the same id when the previous one ended', async () => {
    const { control, file, first, next, behind, again } = await setBack();
    control.remove('users', 5);
    control.insert('users', { id: 5, username: 'another' });
    await again({ mode: 'full', clock: behind });
    expect(versionsIn(file, 'users')).toMatchObject([{ id: 5, change: 'deleted', valid_from: first, valid_to: next }]);
    expect(rowIn(file, 'users', 5)).toMatchObject({ username: 'another', _first_seen_at: next, _changed_at: next });
  });

  test('hides no new record from a reader that follows the numbers', async () => {
    const { control, file, behind, clock, again } = await setBack();
    const before = withSnapshot(file, (snapshot) => snapshot.lastSeq());
    clock.advance(minuteMs);
    control.update('users', 4, { balance: 3 });
    await again({ mode: 'full' });
    control.insert('users', { id: 9_000 });
    control.update('users', 5, { balance: 77.25 });
    await again({ mode: 'full', clock: behind });
    const kinds = (after: number, newest?: Timestamp) =>
      withSnapshot(file, (snapshot) =>
        [...snapshot.changesAfter('users', after, newest)].map(({ id, kind }) => [id, kind] as const),
      );
    expect(kinds(before, clock.at())).toContainEqual([9_000n, 'inserted']);
    // With times that are not believed, an update cannot be told from an insertion.
    const changed = isBelieved ? 'updated' : 'inserted';
    expect(kinds(before)).toContainEqual([4n, changed]);
    expect(kinds(before)).toContainEqual([5n, changed]);
  });
});

test('a clock that is set back during a run sets no time of the run back', async () => {
  const { control, file, clock, first, again } = await begun().then((state) => ({ ...state, first: state.clock.at() }));
  const before = withSnapshot(file, (snapshot) => snapshot.lastSeq());
  control.insert('users', { id: 9_000 });
  let isBack = false;
  const leaping = { now: () => clock.now() - (isBack ? hourMs : 0) };
  await again({
    mode: 'full',
    clock: leaping,
    overStore: (store) => ({
      ...store,
      beginRun: (...run) => {
        store.beginRun(...run);
        isBack = true;
      },
    }),
  });
  expect(isBack).toBe(true);
  const came = rowIn(file, 'users', 9_000);
  expect(came?.['_changed_at']).toBe(first);
  expect(withSnapshot(file, (snapshot) => [...snapshot.changesAfter('users', before)].map(({ kind }) => kind))).toEqual(
    ['inserted'],
  );
});

describe('a change', () => {
  test('keeps the old row, with the time from when it came until it changed', async () => {
    const { control, file, clock, again } = await begun();
    const [began, before] = [clock.at(), rowIn(file, 'users', 5)];
    clock.advance(hourMs);
    control.update('users', 5, { balance: 77.25, language: 'fr' });
    await again();
    const [version, ...others] = versionsIn(file, 'users');
    expect(others).toEqual([]);
    expect(version).toMatchObject({ id: 5, change: 'updated', valid_from: began, valid_to: clock.at() });
    const { _changed_at: changedAt, _seq: _number, ...cells } = before ?? {};
    expect(changedAt).toBe(began);
    expect(JSON.parse(version?.record ?? '')).toEqual(cells);
    expect(rowIn(file, 'users', 5)).toMatchObject({ balance: 77.25, language: 'fr', _changed_at: clock.at() });
  });

  test('of ignored fields only is mirrored, but makes no version and does not move _changed_at', async () => {
    const { control, file, clock, again } = await begun();
    const began = clock.at();
    clock.advance(hourMs);
    control.update('users', 5, { last_seen_at: '2026-03-11T11:00:00.000000Z' });
    const { report } = await again();
    expect(report.resources.users).toMatchObject({ updated: 1 });
    expect(versionsIn(file, 'users')).toEqual([]);
    expect(rowIn(file, 'users', 5)).toMatchObject({
      last_seen_at: '2026-03-11T11:00:00.000000Z',
      _changed_at: began,
    });
    clock.advance(hourMs);
    control.update('users', 5, { status: 'banned' });
    await again();
    // No gap: the version lasts from when the row was first seen to its first change that counts.
    expect(versionsIn(file, 'users')).toMatchObject([{ id: 5, valid_from: began, valid_to: clock.at() }]);
  });

  test('of a field outside the reference makes a version, unless that field is ignored', async () => {
    const historyIgnore = [...usual, '_extra.last_ip', "_extra.it's", 'order'];
    const { control, file, again } = await begun({ historyIgnore });
    const touch = async (fields: Record<string, unknown>) => {
      control.update('coupons', 3, fields);
      await again();
      return versionsIn(file, 'coupons').length;
    };
    expect(await touch({ points: 1 })).toBe(1);
    expect(await touch({ points: 2 })).toBe(2);
    expect(await touch({ last_ip: '10.0.0.1' })).toBe(2);
    expect(await touch({ last_ip: '10.0.0.2', "it's": true })).toBe(2);
    expect(await touch({ points: undefined })).toBe(3);
    // Once only ignored fields are left, there is no further version.
    expect(await touch({ last_ip: undefined, "it's": undefined })).toBe(3);
    expect(rowIn(file, 'coupons', 3)).toMatchObject({ _extra: null });
  });

  test('that cannot be stored completely changes neither the row nor the history', async () => {
    const { control, file, clock, again } = await begun();
    control.update('users', 5, { balance: 77.25 });
    clock.advance(hourMs);
    const refusing = `CREATE TRIGGER refuse BEFORE UPDATE ON mirror_run_resources WHEN NEW.updated > 0
      BEGIN SELECT RAISE(ABORT, 'the disk said no'); END`;
    await expect(again(underTriggers(file, refusing))).rejects.toThrow('the disk said no');
    expect(versionsIn(file, 'users')).toEqual([]);
    expect(rowIn(file, 'users', 5)).not.toMatchObject({ balance: 77.25 });
  });
});

describe('a deletion', () => {
  test('keeps the old row, and a record that comes back under the id is a new one', async () => {
    const { control, file, clock, again } = await begun();
    const times = [clock.at()];
    const before = tableRows(file, 'coupons');
    const next = async (change: () => unknown) => {
      clock.advance(hourMs);
      change();
      await again();
      times.push(clock.at());
    };
    await next(() => control.remove('coupons', 4));
    await next(() => control.insert('coupons', { id: 4, code: 'REBORN', created_at: '2024-02-29T00:00:00.000000Z' }));
    await next(() => control.update('coupons', 4, { code: 'AGAIN' }));
    const versions = versionsIn(file, 'coupons').map(({ id, change, valid_from, valid_to }) => [
      id,
      change,
      times.indexOf(valid_from as Timestamp),
      times.indexOf(valid_to as Timestamp),
    ]);
    expect(versions).toEqual([
      [4, 'deleted', 0, 1],
      [4, 'updated', 2, 3],
    ]);
    const codes = times.map((at) => tableRows(file, 'coupons', at, ['code'])[3]?.[0]);
    expect(tableRows(file, 'coupons', times[0])).toEqual(before);
    expect(codes.slice(2)).toEqual(['REBORN', 'AGAIN']);
    expect(tableRows(file, 'coupons', times[1], ['id']).flat()).not.toContain(4n);
  });

  test('of a suppressed record leaves nothing in the history', async () => {
    const { control, file, again } = await begun();
    alter(file, `INSERT INTO mirror_suppressions (resource, id, user_id, since) VALUES ('coupons', 4, 1, 'now')`);
    control.remove('coupons', 4);
    control.remove('coupons', 5);
    await again();
    expect(versionsIn(file, 'coupons').map(({ id }) => id)).toEqual([5]);
  });
});

describe('versions older than history.keep', () => {
  test('are pruned at the end of a complete run, and the history then begins later', async () => {
    const { control, file, clock, again } = await begun({ historyKeepMs: 10 * dayMs });
    clock.advance(hourMs);
    control.update('users', 5, { balance: 1.5 });
    control.remove('coupons', 4);
    await again();
    clock.advance(11 * dayMs);
    control.update('users', 5, { balance: 2.5 });
    control.faultNext({ fault: 'html', times: 1_000, match: { path: '/api/v1/packages' } });
    expect((await again()).report.status).toBe('partial');
    expect(versionsIn(file, 'users')).toHaveLength(2);
    control.clearFaults();
    const end = clock.at();
    expect((await again()).report.status).toBe('complete');
    expect(versionsIn(file, 'users').map(({ valid_to }) => valid_to)).toEqual([end]);
    expect(versionsIn(file, 'coupons')).toEqual([]);
    const reach = (resource: ResourceName) =>
      withSnapshot(file, (snapshot) => snapshot.historyReach(resource).beginsAt);
    expect(reach('users')).toBe(timestampOf(clock.now() - 10 * dayMs));
    // The other resources lost nothing.
    expect(reach('packages')).toBe(timestampOf(sandboxNow));
  });

  test("are kept if only this machine's clock says that their time has come", async () => {
    const { control, file, clock, again } = await begun({ historyKeepMs: 400 * dayMs });
    control.update('users', 5, { balance: 1.5 });
    control.remove('coupons', 4);
    await again();
    for (const wrongBy of [402 * dayMs, -60 * 365 * dayMs]) {
      const wrong = { now: () => clock.now() + wrongBy };
      expect((await again({ clock: wrong })).report.status).toBe('complete');
      expect(versionsIn(file, 'users').map(({ id }) => id)).toEqual([5]);
      expect(versionsIn(file, 'coupons').map(({ id }) => id)).toEqual([4]);
    }
  });

  test('are pruned in small steps', async () => {
    const { control, file, clock, again } = await begun({ historyKeepMs: hourMs });
    control.remove('coupons', 4);
    await again();
    alter(
      file,
      `WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < 2500)
      INSERT INTO coupons_history (id, change, valid_from, valid_to, record)
      SELECT id, change, valid_from, valid_to, record FROM coupons_history, series`,
    );
    // Notes how many are left before each step.
    alter(file, 'CREATE TABLE steps (remaining)');
    const noting = `CREATE TRIGGER step BEFORE UPDATE ON mirror_history
      BEGIN INSERT INTO steps VALUES ((SELECT count(*) FROM coupons_history)); END`;
    clock.advance(2 * hourMs);
    expect((await again(underTriggers(file, noting))).report.status).toBe('complete');
    expect(valuesOf(file, 'SELECT remaining FROM steps')).toEqual([2_501, 1_501, 501]);
  });
});

test('a clock that was set back leaves one row for each id, the last one written', async () => {
  const { control, file, clock, again } = await begun();
  const change = async (balance: number, ms: number) => {
    clock.advance(ms);
    control.update('users', 5, { balance });
    await again();
  };
  await change(1, 2 * hourMs);
  await change(2, -hourMs);
  await change(3, -hourMs / 2);
  const balanceAt = (ms: number) => tableRows(file, 'users', timestampOf(sandboxNow + ms), ['id', 'balance']);
  for (const ms of [0, hourMs / 2, hourMs, 2 * hourMs, 3 * hourMs]) {
    const ids = balanceAt(ms).map(([id]) => id);
    expect(ids).toEqual([...new Set(ids)]);
    expect(ids).toContain(5n);
  }
  expect(balanceAt(3 * hourMs).find(([id]) => id === 5n)).toEqual([5n, 3]);
});

test('several changes of a record at one moment are reported in order', async () => {
  const { file } = await begun();
  const store = openMirrorStore(file, { now: () => sandboxNow + hourMs }, { historyIgnore: [] });
  store.acquireLock('sync', 'r');
  store.beginRun('r', 'sync', ['coupons']);
  const [window] = store.windows('coupons');
  if (window === undefined) throw new Error('no window');
  const show = (code: string) =>
    store.recordPages('r', window, [{ rows: pageRows('coupons', [{ id: 900, code }]), received: 1 }]);
  show('one');
  show('two');
  store.deleteRecords('r', 'coupons', [900]);
  show('three');
  show('four');
  store.close();
  // The order is that of the rows, which VACUUM must not change.
  alter(file, 'VACUUM');
  const at = timestampOf(sandboxNow + hourMs);
  const changes = withSnapshot(file, (snapshot) => [...snapshot.changes('coupons', { from: at, to: at })]);
  expect(changes.map(({ kind, before, after }) => [kind, before?.[1], after?.[1]])).toEqual([
    ['inserted', undefined, 'one'],
    ['updated', 'one', 'two'],
    ['deleted', 'two', undefined],
    ['inserted', undefined, 'three'],
    ['updated', 'three', 'four'],
  ]);
  expect(tableRows(file, 'coupons', at)).toEqual(tableRows(file, 'coupons'));
});

describe('an id that is reused', () => {
  test('ends the old record and begins a new one', async () => {
    const { control, clock, file, again } = await begun();
    const before = rowIn(file, 'users', 7);
    const since = String(before?.['_changed_at']);
    control.remove('users', 7);
    control.insert('users', { id: 7, created_at: '2026-03-10T08:00:00.000000Z', email: 'stranger@mail.example' });
    clock.advance(hourMs);
    expect((await again({ mode: 'full' })).report.status).toBe('complete');
    expect(versionsIn(file, 'users')).toEqual([
      expect.objectContaining({ id: 7, change: 'deleted', valid_from: since, valid_to: clock.at() }),
    ]);
    expect(rowIn(file, 'users', 7)).toMatchObject({
      email: 'stranger@mail.example',
      _first_seen_at: clock.at(),
      _changed_at: clock.at(),
    });
  });

  test('is not assumed if the same time is written in another way', async () => {
    const { control, file, again } = await begun();
    const created = String(rowIn(file, 'users', 7)?.['created_at']);
    control.update('users', 7, { created_at: created.replace('.000000Z', '+00:00') });
    await again({ mode: 'full' });
    expect(versionsIn(file, 'users').map(({ change }) => change)).toEqual(['updated']);
  });

  test('is not assumed if a server comes to write its times in another zone or with fractions', async () => {
    const { control, file, again } = await begun();
    const [first, second] = [7, 8].map((id) => String(rowIn(file, 'users', id)?.['created_at']));
    control.update('users', 7, { created_at: first?.replace('.000000Z', '.437000Z') ?? '' });
    control.update('users', 8, { created_at: new Date(Date.parse(second ?? '') + 5 * hourMs).toISOString() });
    await again({ mode: 'full' });
    expect(versionsIn(file, 'users').map(({ change }) => change)).toEqual(['updated', 'updated']);
  });
});
