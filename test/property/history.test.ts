// @module-tag full
/** The history has every past state, cell by cell. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { hourMs, timestampOf, type Timestamp } from '../../src/model/time.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import type { Row } from '../../src/data/reading-types.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { columnsOf, tableRows, withSnapshot } from '../support/history.ts';
import { pageRows } from '../support/page-rows.ts';
import { expectMirrored, sync } from '../support/mirror.ts';
import { sandboxNow, withSandbox } from '../support/sandbox.ts';
import { temporaryFolderNow } from '../support/temporary-folder.ts';
import { isFull } from '../support/part.ts';

describe('a version returns every cell as it was', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('007', '12.50', '1e3', 'null', 'true', '{"a":1}', '[1,2]', '"', '\\', '\0', 'a\0b', '\u2028', ''),
  );
  const value: fc.Arbitrary<unknown> = fc.oneof(
    text,
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.bigInt(),
    fc.double({ noNaN: true }),
    fc.constantFrom(5, 5.5, 0.1 + 0.2, 9007199254740993n, Infinity, -Infinity, 5e-324, true, false, null, undefined),
    fc.jsonValue(),
  );
  const record = fc.record(
    Object.fromEntries([...columnsOf('users').slice(1, 17), 'points', 'a "quoted" name'].map((name) => [name, value])),
  );

  // A double has a signed zero; SQL, CSV, and JSON as SQLite writes it, do not.
  const withoutSigns = (rows: Row[]) => rows.map((row) => row.map((cell) => (cell === 0 ? 0 : cell)));

  test('integers beyond 2^53, text that looks like numbers, JSON text, reals', { tags: 'full' }, () => {
    const folder = temporaryFolderNow();
    let now = sandboxNow;
    const file = `${folder.path}/mirror.db`;
    const store = openMirrorStore(file, { now: () => now });
    try {
      store.acquireLock('sync', 'r');
      store.beginRun('r', 'sync', ['users']);
      store.resetWindows('users', [{ from: '0000-01-01' as never, to: '3000-01-01' as never }]);
      const [window] = store.windows('users');
      if (window === undefined) throw new Error('no window');
      fc.assert(
        fc.property(record, (fields) => {
          now += 1_000;
          store.recordPages('r', window, [{ rows: pageRows('users', [{ id: 1, ...fields }]), received: 1 }]);
          const at = timestampOf(now);
          const row = withoutSigns(tableRows(file, 'users'));
          now += 1_000;
          const other = pageRows('users', [{ id: 1, username: `other ${now}` }]);
          store.recordPages('r', window, [{ rows: other, received: 1 }]);
          expect(withoutSigns(tableRows(file, 'users', at))).toEqual(row);
        }),
        { numRuns: 150 },
      );
    } finally {
      store.close();
      folder.remove();
    }
  });
});

describe('the history replays', () => {
  const resources = ['users', 'coupons'] as const;
  type Resource = (typeof resources)[number];
  type Operation = readonly [kind: 'update' | 'touch' | 'remove' | 'insert', resource: Resource, pick: number];
  const operation = fc.tuple(
    fc.constantFrom('update', 'update', 'touch', 'remove', 'insert'),
    fc.constantFrom(...resources),
    fc.nat(1_000),
  ) as fc.Arbitrary<Operation>;
  const syncs = fc.array(fc.array(operation, { maxLength: 12 }), { minLength: 2, maxLength: 6 });

  function apply({ control }: Sandbox, [kind, resource, pick]: Operation): void {
    const ids = control.dump(resource).map((record) => Number(record['id']));
    // Few ids, so that one record changes again and again.
    const id = ids[pick % Math.min(6, Math.max(1, ids.length))];
    const money = resource === 'users' ? 'balance' : 'discount_amount';
    switch (kind) {
      case 'update':
        if (id !== undefined) control.update(resource, id, { [money]: pick / 8, points: pick % 3 });
        break;
      case 'touch':
        if (id !== undefined) control.update(resource, id, {});
        break;
      case 'remove':
        if (id !== undefined) control.remove(resource, id);
        break;
      case 'insert': {
        // An id that was freed recently or never used.
        const free = 1 + (pick % 3 === 0 ? 20 + (pick % 7) : pick % 8);
        if (!ids.includes(free)) control.insert(resource, { id: free });
      }
    }
  }

  // proves: history
  test('the table as it was at each sync, whatever was added, changed, deleted and restored', async () => {
    await fc.assert(
      fc.asyncProperty(syncs, fc.constantFrom([], ['updated_at', 'balance']), async (plan, historyIgnore) => {
        const folder = temporaryFolderNow();
        try {
          const states = await withSandbox({ users: 20, coupons: 12, packages: 0, emails: 0 }, (sandbox) =>
            replay(sandbox, `${folder.path}/mirror.db`, plan, historyIgnore),
          );
          expect(states).toBe(plan.length + 1);
        } finally {
          folder.remove();
        }
      }),
      { numRuns: isFull ? 6 : 3 },
    );
  }, 60_000);

  /** Makes the changes with a sync after each group, then reads each state again; returns the number of states. */
  async function replay(
    sandbox: Sandbox,
    file: string,
    plan: readonly (readonly Operation[])[],
    historyIgnore: readonly string[],
  ): Promise<number> {
    let now = sandboxNow;
    // Each look at the clock is another moment, as in a real run.
    const clock = { now: () => (now += 1) };
    const columns = (resource: Resource) => columnsOf(resource).filter((name) => !historyIgnore.includes(name));
    const states: { readonly at: Timestamp; readonly tables: Readonly<Record<Resource, Row[]>> }[] = [];
    for (const operations of [[], ...plan]) {
      for (const each of operations) apply(sandbox, each);
      const { report } = await sync(sandbox, file, { clock, historyIgnore, resources, allowDeletions: true });
      expect(report.status).toBe('complete');
      expectMirrored(sandbox, file, resources);
      const rows = (resource: Resource) => tableRows(file, resource, undefined, columns(resource));
      states.push({ at: timestampOf(now), tables: { users: rows('users'), coupons: rows('coupons') } });
      now += hourMs;
      sandbox.control.advanceClock(hourMs);
    }
    for (const [index, { at, tables }] of states.entries()) {
      for (const resource of resources) {
        expect(tableRows(file, resource, at, columns(resource))).toEqual(tables[resource]);
        const kept = columns(resource).slice(0, -2);
        for (const before of states.slice(0, index)) {
          const replayed = replayChanges(file, resource, kept, before.tables[resource], [before.at, at]);
          expect(replayed).toEqual(tables[resource].map((row) => row.slice(0, kept.length)));
        }
      }
    }
    return states.length;
  }

  /** The earlier rows with every change since applied; each change must match the row that it changes. */
  function replayChanges(
    file: string,
    resource: Resource,
    kept: readonly string[],
    rows: readonly Row[],
    [after, to]: readonly [Timestamp, Timestamp],
  ): Row[] {
    const places = kept.map((name) => columnsOf(resource).indexOf(name));
    const cut = (row: Row | null) => (row === null ? undefined : places.map((place) => row[place] ?? null));
    const state = new Map(rows.map((row) => [row[0], row.slice(0, kept.length)]));
    const from = timestampOf(Date.parse(after) + 1);
    for (const change of withSnapshot(file, (snapshot) => [...snapshot.changes(resource, { from, to })])) {
      expect(state.get(change.id)).toEqual(cut(change.before));
      const next = cut(change.after);
      if (next === undefined) state.delete(change.id);
      else state.set(change.id, next);
    }
    return [...state.values()].sort((a, b) => Number(a[0]) - Number(b[0]));
  }
});
