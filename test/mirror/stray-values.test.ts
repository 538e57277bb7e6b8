/** Values that their columns cannot hold: null in the column, complete in `_extra`, and in comparisons and history. */
import { describe, expect, test } from 'vitest';
import { hourMs, timestampOf } from '../../src/model/time.ts';
import { tableRows } from '../support/history.ts';
import { newMirror, sync } from '../support/mirror.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { verifyMirror } from '../support/verify.ts';
import { sample } from '../support/part.ts';
import { rowsOf } from '../support/rows.ts';

const tried = { resources: ['users'], historyIgnore: ['last_seen_at', 'last_login_at', 'updated_at'] } as const;

async function begun() {
  const { sandbox, file } = await newMirror();
  const again = () => sync(sandbox, file, tried);
  const change = (fields: Record<string, unknown>) => {
    sandbox.control.advanceClock(hourMs);
    sandbox.control.update('users', 5, fields);
    return again();
  };
  await again();
  const rows = (sql: string) => rowsOf(file, sql);
  return { sandbox, file, again, change, rows };
}

describe('a value that its column cannot hold', () => {
  // proves: any-shape
  test.each(
    sample(
      [
        ['balance', 'none', '"none"'],
        ['balance', { amount: 5 }, '{"amount":5}'],
        ['is_subscribed', '007', '"007"'],
        ['visibility', ['a', 'b'], '["a","b"]'],
        ['language', true, 'true'],
        ['last_login_at', 1_700_000_000, '1700000000'],
      ],
      2,
    ),
  )('(%s served as %j) is null in its column, complete in _extra, and reported once', async (field, value, json) => {
    const { sandbox, file, change, rows, again } = await begun();
    const { report } = await change({ [field]: value });
    expect(report.status).toBe('complete');
    const stored = `SELECT "${field}" AS cell, _extra AS extra FROM users WHERE id = 5`;
    expect(rows(stored)).toEqual([{ cell: null, extra: `{"${field}":${json}}` }]);
    const events = `SELECT detail FROM mirror_events WHERE kind = 'changed_type' AND subject = '${field}'`;
    expect(rows(events)).toEqual([{ detail: expect.stringMatching(/null in its column, whole in _extra$/) }]);
    // Nothing changed since, for a sync or a comparison.
    expect((await again()).report.resources.users).toMatchObject({ updated: 0, live: 60 });
    expect((await verifyMirror(sandbox, file, { deep: true, resources: ['users'] })).report.status).toBe('equal');
    sandbox.control.update('users', 5, { [field]: [value, 'other'] });
    expect((await verifyMirror(sandbox, file, { deep: true, resources: ['users'] })).report.status).toBe('different');
  });

  test('is in the history like any other value', async () => {
    const { file, change } = await begun();
    const times = [{ balance: 'none' }, { balance: 12.5 }, { balance: 'some' }, { balance: 'some' }];
    for (const fields of times) await change(fields);
    const at = (hours: number) =>
      tableRows(file, 'users', timestampOf(sandboxNow + hours * hourMs), ['id', 'balance', '_extra']).find(
        ([id]) => id === 5n,
      );
    expect([1.5, 2.5, 3.5].map(at)).toEqual([
      [5n, null, '{"balance":"none"}'],
      [5n, 12.5, null],
      [5n, null, '{"balance":"some"}'],
    ]);
  });

  test('makes no version if the field is ignored', async () => {
    const { change, rows } = await begun();
    await change({ last_seen_at: 1 });
    await change({ last_seen_at: 2 });
    expect(rows('SELECT id FROM users_history WHERE id = 5')).toEqual([]);
    expect(rows('SELECT last_seen_at AS cell, _extra AS extra FROM users WHERE id = 5')).toEqual([
      { cell: null, extra: '{"last_seen_at":2}' },
    ]);
  });
});

test.each(
  sample(
    [
      ['balance', '12.50', 12.5],
      ['balance', 7, 7],
      ['is_subscribed', true, 1],
      ['username', 42, '42'],
      ['avatar', 5, '5'],
      ['avatar', { url: 'x' }, '{"url":"x"}'],
      ['data', false, 'false'],
    ],
    2,
  ),
)('%s served as %j is stored as %j, because nothing is lost', async (field, value, cell) => {
  const { change, rows, sandbox, file } = await begun();
  await change({ [field]: value });
  expect(rows(`SELECT "${field}" AS cell, _extra AS extra FROM users WHERE id = 5`)).toEqual([{ cell, extra: null }]);
  expect((await verifyMirror(sandbox, file, { deep: true, resources: ['users'] })).report.status).toBe('equal');
});

test.each(sample([0, -1], 1))('a user whose id is %i is mirrored like any other, even as the newest', async (id) => {
  const { sandbox, file } = await newMirror({ users: 20 });
  sandbox.control.insert('users', { id });
  const night = async () => {
    sandbox.control.advanceClock(hourMs);
    const { report } = await sync(sandbox, file, { resources: ['users'], mode: 'full' });
    const { status, live } = report.resources.users ?? {};
    return [status, live];
  };
  expect([await night(), await night()]).toEqual([
    ['complete', 21],
    ['complete', 21],
  ]);
  sandbox.control.remove('users', id);
  expect(await night()).toEqual(['complete', 20]);
});
