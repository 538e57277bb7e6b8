/** A write that counted as not applied is made after all, while the same payment is about to be sent again. */
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Client } from '../../src/api/operations.ts';
import { recordLate } from '../../src/bulk/late.ts';
import { discardBatch, resolveRow } from '../../src/bulk/resolve.ts';
import type { Journal } from '../../src/journal/port.ts';
import { minuteMs, timestampOf } from '../../src/model/time.ts';
import type { JsonRecord } from '../../src/sandbox/envelope.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { behindProxy } from '../support/altering-proxy.ts';
import { bulkClient, intentsOf, newUser, plan, send, sheetOf, undo } from '../support/bulk.ts';
import { anna, newJournal } from '../support/journal.ts';
import { openJournal } from '../support/journal-file.ts';
import { startSandbox } from '../support/sandbox.ts';

const later = { now: () => Date.now() + 11 * minuteMs };

async function world() {
  const sandbox = await startSandbox({
    users: 5,
    emails: 5,
    now: Date.now(),
    behaviour: { late_commit_ms: 3_600_000 },
  });
  const client = bulkClient(sandbox);
  const { journal, file } = await newJournal({ now: () => Date.now() });
  const user = newUser(sandbox, 100);
  const balance = (): unknown => sandbox.control.get('users', user)?.['balance'];
  const states = async (...batches: readonly string[]) =>
    (await Promise.all(batches.map((batch) => intentsOf(journal, batch)))).flat().map(({ state }) => state);
  return { sandbox, client, journal, file, user, balance, states };
}

/** Sends the batch to a server that makes its only row late, and gives up waiting for it. */
async function lost(sandbox: Sandbox, journal: Journal, client: Client, batch: string, user: number): Promise<void> {
  sandbox.control.faultNext({ fault: 'commit_late', match: { method: 'PUT', path: `/users/${user}/` } });
  await send(journal, client, batch);
  await send(journal, client, batch, { clock: later });
  expect((await intentsOf(journal, batch))[0]?.state).toBe('not_applied');
}

describe('a write that is made late', () => {
  test('is not made again by a batch that repeats it, even with a reason', async () => {
    const { sandbox, client, journal, user, balance, states } = await world();
    const first = await plan(journal, client, sheetOf([[user, 'add', '5']]));
    await lost(sandbox, journal, client, first.batch, user);
    const again = await plan(journal, client, sheetOf([[user, 'add', '5', 'x']]), { againReason: 'it was not made' });
    sandbox.control.commitLate();
    const { error } = await send(journal, client, again.batch);
    expect([error?.exitCode, balance(), await states(first.batch, again.batch)]).toEqual([
      5,
      105,
      ['applied', 'skipped'],
    ]);
    const [row] = await intentsOf(journal, again.batch);
    expect(row?.problem).toMatch(new RegExp(`^row 2 of batch ${first.batch}, .* was made after all$`));
  });

  test.each(['commit_429', 'commit_503'] as const)(
    'is not made again if the server had asked to come back later (%s) and the batch was discarded',
    async (fault) => {
      const { sandbox, client, journal, user, balance, states } = await world();
      sandbox.control.setBehaviour({ retry_after_seconds: 3_600 });
      const first = await plan(journal, client, sheetOf([[user, 'add', '5']]));
      sandbox.control.faultNext({ fault, match: { method: 'PUT', path: `/users/${user}/` } });
      expect((await send(journal, client, first.batch)).error?.exitCode).toBe(4);
      await discardBatch(journal, (await journal.batch(first.batch)) ?? first, 'Kim pays it');
      const sheet = sheetOf([[user, 'add', '5', 'x']]);
      // A new client, because the other one would wait for as long as the server said.
      const fresh = bulkClient(sandbox);
      await expect(plan(journal, fresh, sheet)).rejects.toThrow(/sent before/);
      const again = await plan(journal, fresh, sheet, { againReason: 'it was not made' });
      await send(journal, fresh, again.batch);
      expect([balance(), await states(first.batch, again.batch)]).toEqual([105, ['applied', 'skipped']]);
    },
  );

  test('does not reverse a row twice: the second reversal is not sent', async () => {
    const { sandbox, client, journal, user, balance, states } = await world();
    const paid = await plan(journal, client, sheetOf([[user, 'add', '5']]));
    await send(journal, client, paid.batch);
    const one = (await undo(journal, client, paid.batch)).batch;
    await lost(sandbox, journal, client, one, user);
    const other = (await undo(journal, client, paid.batch)).batch;
    await expect(send(journal, client, other)).rejects.toThrow(/1 row was sent before; nothing was sent now/);
    sandbox.control.commitLate();
    await send(journal, client, other, { againReason: 'it was not made' });
    expect([balance(), await states(one, other)]).toEqual([100, ['applied', 'skipped']]);
  });

  test('that reversed a row which was reversed again meanwhile is known as one reversal too many', async () => {
    const { sandbox, client, journal, user, balance, states } = await world();
    const paid = await plan(journal, client, sheetOf([[user, 'add', '5']]));
    await send(journal, client, paid.batch);
    const one = (await undo(journal, client, paid.batch)).batch;
    await lost(sandbox, journal, client, one, user);
    const other = (await undo(journal, client, paid.batch)).batch;
    await send(journal, client, other, { againReason: 'it was not made' });
    sandbox.control.commitLate();
    const end = await send(journal, client, one, { clock: later });
    const first = (await journal.batch(one)) ?? paid;
    expect([end.error?.exitCode, balance(), await states(one, other)]).toEqual([8, 95, ['needs_human', 'applied']]);
    expect(end.error?.message).toMatch(
      new RegExp(`row 2 of batch ${paid.batch} was taken back by row 2 of batch ${other}`),
    );
    expect((await intentsOf(journal, one))[0]?.problem).toContain(`update-balance ${user} --type add --amount 5.00`);
    await resolveRow(journal, first, { row: 2, outcome: 'applied', resend: false, reason: 'given back by hand' });
    expect([await states(one, other), (await journal.verifyChain()).status]).toEqual([['applied', 'applied'], 'whole']);
  });

  test('is looked for and counts as sent, even if a person wanted it sent again and its precondition failed', async () => {
    const { sandbox, client, journal, user, balance, states } = await world();
    const rows = [
      [user, 'add', '5', '', '100'],
      [newUser(sandbox, 100), 'add', '7'],
    ];
    const { batch } = await plan(journal, client, sheetOf(rows));
    sandbox.control.faultNext({ fault: 'commit_late', match: { method: 'PUT', path: `/users/${user}/` } });
    await send(journal, client, batch);
    await send(journal, client, batch, { clock: later });
    const found = await journal.batch(batch);
    if (found === undefined) throw new Error('the batch is gone');
    await resolveRow(journal, found, { row: 2, outcome: 'not_applied', resend: true, reason: 'not in the panel' });
    sandbox.control.update('users', user, { balance: 90 });
    await send(journal, client, batch, { clock: later });
    expect(await states(batch)).toEqual(['not_applied', 'applied']);
    expect((await intentsOf(journal, batch))[0]?.problem).toBe('the balance is 90.00, and the row expects 100.00');
    await expect(plan(journal, client, sheetOf([[user, 'add', '5']]))).rejects.toThrow(/this change was sent before/);
    sandbox.control.commitLate();
    await send(journal, client, batch, { clock: later });
    expect([balance(), await states(batch)]).toEqual([95, ['applied', 'applied']]);
  });

  test('that reverses a row takes the place of the second reversal, which was not sent yet', async () => {
    const { sandbox, client, journal, user, balance, states } = await world();
    const paid = await plan(journal, client, sheetOf([[user, 'add', '5']]));
    await send(journal, client, paid.batch);
    const one = (await undo(journal, client, paid.batch)).batch;
    await lost(sandbox, journal, client, one, user);
    const other = (await undo(journal, client, paid.batch)).batch;
    sandbox.control.commitLate();
    await send(journal, client, one, { clock: later });
    expect([balance(), await states(one, other)]).toEqual([100, ['applied', 'skipped']]);
    expect((await journal.batch(other))?.state).toBe('done');
    expect((await intentsOf(journal, other))[0]?.problem).toBe(
      `row 2 of batch ${one}, which counted as not applied, was made after all`,
    );
  });

  test('that reverses a row is recorded once the batch of the second reversal is not locked, even if that is blocked', async () => {
    const { sandbox, client, journal, file, user, balance, states } = await world();
    const paid = await plan(journal, client, sheetOf([[user, 'add', '5']]));
    await send(journal, client, paid.batch);
    const one = (await undo(journal, client, paid.batch)).batch;
    await lost(sandbox, journal, client, one, user);
    const other = (await undo(journal, client, paid.batch)).batch;
    const open = await plan(journal, client, sheetOf([[user, 'add', '7']]));
    sandbox.control.faultNext({ fault: 'lost', match: { method: 'PUT', path: `/users/${user}/` } });
    await send(journal, client, open.batch);
    await send(journal, client, other, { againReason: 'it was not made' });
    expect(await states(one, other, open.batch)).toEqual(['not_applied', 'blocked', 'unknown']);
    sandbox.control.commitLate();
    const elsewhere = await openJournal(file, anna);
    onTestFinished(() => elsewhere.close());
    await elsewhere.acquireLock(other);
    const { error } = await send(journal, client, one, { clock: later });
    expect([error?.exitCode, error?.message]).toEqual([
      8,
      expect.stringMatching(/^row 2 of batch .* was made after all. This cannot be recorded/),
    ]);
    const [row] = await intentsOf(journal, one);
    const transactions = () => [{ id: 1, amount: 5, result: '-', description: row?.token }];
    const directory = { transactions };
    expect(await recordLate({ journal, directory, clock: later })).toEqual([]);
    expect(await states(one, other)).toEqual(['not_applied', 'blocked']);
    await elsewhere.releaseLock(other);
    await send(journal, client, one, { clock: later });
    expect([balance(), await states(one, other)]).toEqual([100, ['applied', 'skipped']]);
  });

  test.each(['resume', 'sync'])('is known as applied after a %s although the server refused it', async (how) => {
    const { sandbox, client, journal, user, balance, states } = await world();
    const { control } = sandbox;
    const late: JsonRecord[] = [];
    const proxy = await behindProxy(sandbox, ({ method }) => {
      if (method !== 'PUT') return {};
      late.push(...control.related('users', user, 'balance_transactions'));
      control.setRelated('users', user, 'balance_transactions', []);
      control.update('users', user, { balance: 100 });
      return { status: 422, body: '{"success":false,"errors":["busy"]}' };
    });
    const there = bulkClient(proxy);
    const { batch } = await plan(journal, there, sheetOf([[user, 'add', '5']]));
    await send(journal, there, batch);
    expect(await states(batch)).toEqual(['rejected']);
    control.setRelated('users', user, 'balance_transactions', late);
    control.update('users', user, { balance: 105 });
    const directory = { transactions: () => late };
    if (how === 'resume') await send(journal, there, batch, { clock: later });
    else await recordLate({ journal, directory, clock: later });
    expect([balance(), await states(batch)]).toEqual([105, ['applied']]);
    await expect(plan(journal, client, sheetOf([[user, 'add', '5', 'x']]))).rejects.toThrow(/sent before/);
  });

  test('is not made again if another journal made it and this one skipped the row', async () => {
    const { sandbox, client, journal, user, balance, states } = await world();
    const first = await plan(journal, client, sheetOf([[user, 'add', '5', '', '100']]));
    sandbox.control.update('users', user, { balance: 90 });
    await send(journal, client, first.batch);
    expect(await states(first.batch)).toEqual(['skipped']);
    const [row] = await intentsOf(journal, first.batch);
    const made = { amount: 5, result: '+', description: row?.token ?? '', created_at: timestampOf(Date.now()) };
    sandbox.control.setRelated('users', user, 'balance_transactions', [{ id: 1, ...made }]);
    const again = await plan(journal, client, sheetOf([[user, 'add', '5']]));
    await send(journal, client, again.batch);
    expect([balance(), await states(first.batch, again.batch)]).toEqual([90, ['applied', 'skipped']]);
  });
});

describe('an id that belongs to another person by now', () => {
  const becomesAnother = ({ control }: Sandbox, user: number) => {
    control.remove('users', user);
    control.insert('users', { id: user, balance: 100, email: 'other@example.com', username: 'other' });
    control.setRelated('users', user, 'balance_transactions', []);
  };

  test('is not charged for a payment to the person before', async () => {
    const { sandbox, client, journal, user, states } = await world();
    const paid = await plan(journal, client, sheetOf([[user, 'add', '5']]));
    await send(journal, client, paid.batch);
    becomesAnother(sandbox, user);
    const back = (await undo(journal, client, paid.batch)).batch;
    expect(await states(back)).toEqual(['invalid']);
    expect((await intentsOf(journal, back))[0]?.problem).toMatch(
      /^the user has the email other@example\.com, and had .* in the plan of the batch that is taken back/,
    );
  });

  test('that shows the payment of another user, because the two were merged, is reported and not paid', async () => {
    const { sandbox, client, journal, user, balance, states } = await world();
    const { control } = sandbox;
    const paid = await plan(journal, client, sheetOf([[newUser(sandbox, 100), 'add', '5']]));
    await send(journal, client, paid.batch);
    const [row] = await intentsOf(journal, paid.batch);
    const moved = control.related('users', row?.user ?? 0, 'balance_transactions');
    control.remove('users', row?.user ?? 0);
    control.setRelated('users', user, 'balance_transactions', moved);
    const { batch } = await plan(journal, client, sheetOf([[user, 'add', '5']]));
    const { error } = await send(journal, client, batch);
    expect([error?.message, balance(), await states(batch)]).toEqual([
      expect.stringMatching(
        new RegExp(`^row 2 was not sent: .* the mark ${row?.token}, that of row 2 of batch ${paid.batch}$`),
      ),
      100,
      ['planned'],
    ]);
  });

  test.each(['lost', 'refused'])('does not prove that nothing was made if the response was %s', async (how) => {
    const { sandbox, client, journal, user, states } = await world();
    const { batch } = await plan(journal, client, sheetOf([[user, 'add', '5']]));
    const proxy = await behindProxy(sandbox, ({ method }) => {
      if (method !== 'PUT') return {};
      becomesAnother(sandbox, user);
      if (how === 'lost') throw new Error('the connection is thrown away');
      return { status: 422, body: '{"success":false,"errors":["busy"]}' };
    });
    const there = bulkClient(proxy);
    await send(journal, there, batch);
    await send(journal, there, batch, { clock: later });
    expect(await states(batch)).toEqual(['needs_human']);
  });
});
