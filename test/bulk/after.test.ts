import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { describe, expect, test } from 'vitest';
import { balance } from '../../src/bulk/actions/balance.ts';
import { undoRows } from '../../src/bulk/read-rows.ts';
import { type Manifest, writeResults } from '../../src/bulk/results.ts';
import { resolveRow } from '../../src/bulk/resolve.ts';
import { tableWriter } from '../../src/data/export.ts';
import { systemClock } from '../../src/model/time.ts';
import type { Behaviour, Sandbox } from '../support/bent/sandbox.ts';
import { bulkClient, intentsOf, newUser, plan, send, sheetOf, undo } from '../support/bulk.ts';
import { newJournal } from '../support/journal.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const signal = new AbortController().signal;

async function world(behaviour: Partial<Behaviour> = {}) {
  const sandbox = await startSandbox({ users: 5, emails: 5, behaviour });
  const client = bulkClient(sandbox);
  const { journal } = await newJournal({ now: () => Date.now() });
  return { sandbox, client, journal };
}

const balanceOf = ({ control }: Sandbox, user: number): unknown => control.get('users', user)?.['balance'];

describe('results', () => {
  // proves: results
  test('have each row of the file once, in its columns and order, with matching counts and hashes', async () => {
    const { sandbox, client, journal } = await world({ negative_balance: 'refused' });
    const users = Array.from({ length: 6 }, () => newUser(sandbox, 100));
    const [a, b, c, d, e] = users;
    const rows = [
      [a, 'add', '1', '=cmd()'],
      [b, 'remove', '500', 'too much'],
      [c, 'add', '2', 'two\nlines, "quoted"'],
      [d, 'add', 'x', ''],
      [e, 'set', '5', '-5'],
      [c, 'add', '3', 'waits'],
    ].map((cells) => cells.map((cell) => cell ?? ''));
    const batch = await plan(journal, client, sheetOf(rows, ['user_id', 'type', 'amount', 'description']));
    sandbox.control.faultNext({ fault: 'reset_before', match: { method: 'PUT', path: `/users/${c}/` } });
    sandbox.control.update('users', e ?? 0, { balance: 1 });
    await send(journal, client, batch.batch);
    const folder = join(temporaryFolder(), 'made', 'here');
    const writer = tableWriter('csv', signal, () => {});
    await writeResults(
      { journal, clock: systemClock, signal },
      (await journal.batch(batch.batch)) ?? batch,
      folder,
      writer,
    );
    const file = (name: string): string => readFileSync(join(folder, name), 'utf8');
    const read = (name: string): string[][] => parse(file(name), { bom: true });
    const head = [
      'user_id',
      'type',
      'amount',
      'description',
      '_row',
      '_state',
      '_balance_before',
      '_balance_after',
      '_http_status',
      '_evidence',
      '_problem',
      '_discrepancy',
      '_token',
      '_user_id',
      '_sent_at',
      '_transaction_id',
    ];
    for (const name of ['applied', 'rejected', 'unknown', 'unprocessed']) expect(read(`${name}.csv`)[0]).toEqual(head);
    const applied = (await intentsOf(journal, batch.batch))[0];
    const [transaction] = sandbox.control.related('users', a ?? 0, 'balance_transactions');
    const found = ['', applied?.token, String(a), applied?.sentAt, String(transaction?.['id'])];
    expect(read('applied.csv').slice(1)).toEqual([
      [String(a), 'add', '1', "'=cmd()", '2', 'applied', '100.00', '101.00', '200', 'token', '', ...found],
    ]);
    expect(read('rejected.csv')[1]?.slice(0, 9)).toEqual([
      String(b),
      'remove',
      '500',
      'too much',
      '3',
      'rejected',
      '100.00',
      '100.00',
      '422',
    ]);
    expect(read('unknown.csv')[1]?.slice(0, 6)).toEqual([
      String(c),
      'add',
      '2',
      'two\nlines, "quoted"',
      '4',
      'unknown',
    ]);
    expect(
      read('unprocessed.csv')
        .slice(1)
        .map((row) => [row[3], row[4], row[5]]),
    ).toEqual([
      ['', '5', 'invalid'],
      ['-5', '6', 'skipped'],
      ['waits', '7', 'blocked'],
    ]);
    const manifest = JSON.parse(file('manifest.json')) as Manifest;
    expect(manifest).toMatchObject({
      batch: batch.batch,
      hash: batch.hash,
      rows: 6,
      counts: { planned: 0, applied: 1, rejected: 1, unknown: 1, blocked: 1, skipped: 1, invalid: 1 },
      file: { name: 'credit.csv' },
      server: sandbox.url,
    });
    expect(manifest.files.reduce((sum, each) => sum + each.rows, 0)).toBe(6);
    for (const { file: name, bytes, sha256 } of manifest.files) {
      expect(Buffer.byteLength(file(name))).toBe(bytes);
      expect(createHash('sha256').update(file(name)).digest('hex')).toBe(sha256);
    }
  });
});

describe('a person', () => {
  async function unknown() {
    const { sandbox, client, journal } = await world({ transactions: 'hidden' });
    const user = newUser(sandbox, 100);
    const batch = await plan(journal, client, sheetOf([[user, 'add', '5', 'x']]));
    sandbox.control.faultNext({ fault: 'reset_before', match: { method: 'PUT' } });
    await send(journal, client, batch.batch);
    return { sandbox, client, journal, user, batch };
  }

  test('can have a row sent once more, which nothing else can', async () => {
    const { sandbox, client, journal, user, batch } = await unknown();
    await resolveRow(journal, batch, { row: 2, outcome: 'not_applied', resend: true, reason: 'not in the panel' });
    expect(await intentsOf(journal, batch.batch)).toMatchObject([{ state: 'planned', attempts: 1 }]);
    expect((await send(journal, client, batch.batch)).error).toBeNull();
    expect(await intentsOf(journal, batch.batch)).toMatchObject([{ state: 'applied', attempts: 2 }]);
    expect(balanceOf(sandbox, user)).toBe(105);
  });

  test('does no harm by a wrong decision if the token is on the server', async () => {
    const { sandbox, client, journal, user, batch } = await unknown();
    sandbox.control.setBehaviour({ transactions: 'shown' });
    const { token } = (await intentsOf(journal, batch.batch))[0] ?? {};
    await resolveRow(journal, batch, { row: 2, outcome: 'not_applied', resend: true, reason: 'not in the panel' });
    // It is made late, after the person looked.
    sandbox.control.update('users', user, { balance: 105 });
    sandbox.control.setRelated('users', user, 'balance_transactions', [
      { amount: 5, result: '+', description: `x ${token}` },
    ]);
    expect((await send(journal, client, batch.batch)).error).toBeNull();
    expect(await intentsOf(journal, batch.batch)).toMatchObject([{ state: 'applied', evidence: 'token', attempts: 1 }]);
    expect(sandbox.control.ledger()).toEqual([]);
  });
});

describe('undo', () => {
  // proves: taken-back-once
  test('reverses each applied row once, the last one first', async () => {
    const { sandbox, client, journal } = await world();
    const [a, b] = [newUser(sandbox, 100), newUser(sandbox, 50)];
    const batch = await plan(
      journal,
      client,
      sheetOf([
        [a, 'add', '5', 'x'],
        [b, 'remove', '7'],
        [a, 'set', '1', 'y'],
        [a, 'add', '2'],
      ]),
    );
    await send(journal, client, batch.batch);
    expect([balanceOf(sandbox, a), balanceOf(sandbox, b)]).toEqual([3, 43]);
    const back = await undo(journal, client, batch.batch);
    expect(back).toMatchObject({ net: '104.00', undoOf: batch.batch, file: null });
    await expect(undoRows(journal, batch, balance)).rejects.toThrow(/nothing of batch .* is left/);
    expect((await send(journal, client, back.batch)).error).toBeNull();
    expect([balanceOf(sandbox, a), balanceOf(sandbox, b)]).toEqual([100, 50]);
    await expect(undoRows(journal, batch, balance)).rejects.toThrow(/nothing of batch .* is left/);
  });

  test('cuts a long description at a whole character', async () => {
    const { sandbox, client, journal } = await world();
    // "Reversal: " and this text leave room for half of the last character.
    const description = `${'y'.repeat(228)}\u{1F600}`;
    const batch = await plan(journal, client, sheetOf([[newUser(sandbox, 9), 'add', '1', description]]));
    await send(journal, client, batch.batch);
    const [row] = (await undoRows(journal, batch, balance)).rows;
    expect(row?.parameters).toMatchObject({ description: `Reversal: ${'y'.repeat(228)}` });
  });

  test('does not touch rows that were not applied', async () => {
    const { sandbox, client, journal } = await world({ negative_balance: 'refused' });
    const batch = await plan(
      journal,
      client,
      sheetOf([
        [newUser(sandbox, 9), 'add', '1'],
        [newUser(sandbox, 9), 'remove', '99'],
      ]),
    );
    await send(journal, client, batch.batch);
    expect((await undoRows(journal, batch, balance)).rows).toMatchObject([
      { undoOfRow: 2, parameters: { type: 'remove', amount: '1.00' } },
    ]);
  });

  test('leaves a row to a person if the balance does not fit it, so that no more is given back than was taken', async () => {
    const { sandbox, client, journal } = await world({ negative_balance: 'clamped' });
    const [poor, rich] = [newUser(sandbox, 3), newUser(sandbox, 9)];
    const cells = [poor, rich].map((user) => [user, 'remove', '5']);
    const batch = await plan(journal, client, sheetOf(cells));
    await send(journal, client, batch.batch);
    expect([balanceOf(sandbox, poor), balanceOf(sandbox, rich)]).toEqual([0, 4]);
    const back = await undo(journal, client, batch.batch);
    expect(back.warnings).toEqual([
      expect.stringMatching(
        /^row 2 cannot be taken back: nobody knows by how much it changed the balance \(.*should be -2.00 and is 0.00\)/,
      ),
    ]);
    await send(journal, client, back.batch);
    expect([balanceOf(sandbox, poor), balanceOf(sandbox, rich)]).toEqual([0, 9]);
  });

  test('sets a balance back only if it is still as it was set', async () => {
    const { sandbox, client, journal } = await world();
    const [a, b] = [newUser(sandbox, 100), newUser(sandbox, 100)];
    const batch = await plan(
      journal,
      client,
      sheetOf([
        [a, 'set', '5'],
        [b, 'set', '5'],
      ]),
    );
    await send(journal, client, batch.batch);
    sandbox.control.update('users', a, { balance: 6 });
    const back = await undo(journal, client, batch.batch);
    sandbox.control.update('users', b, { balance: 7 });
    expect((await intentsOf(journal, back.batch)).map(({ user, state }) => [user, state])).toEqual([
      [b, 'planned'],
      [a, 'invalid'],
    ]);
    await send(journal, client, back.batch);
    expect([balanceOf(sandbox, a), balanceOf(sandbox, b)]).toEqual([6, 7]);
  });
});
