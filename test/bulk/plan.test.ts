import { describe, expect, onTestFinished, test } from 'vitest';
import type { Money } from '../../src/model/money.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { UserDirectory } from '../../src/bulk/find-users.ts';
import { bulkClient, intentsOf, plan, type PlanTry, send, sheetOf } from '../support/bulk.ts';
import { newJournal } from '../support/journal.ts';
import { sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

async function world(options: Parameters<typeof startSandbox>[0] = {}) {
  const sandbox = await startSandbox({ emails: 5, ...options });
  const client = bulkClient(sandbox);
  const { journal } = await newJournal({ now: () => Date.now() });
  return { sandbox, client, journal };
}

async function mirrorOf(sandbox: Sandbox) {
  const file = `${temporaryFolder()}/mirror.db`;
  await sync(sandbox, file, { resources: ['users'] });
  const directory = new UserDirectory(file);
  onTestFinished(() => directory.close());
  return directory;
}

const asked = ({ control }: Sandbox): number => control.requests().total;

describe('users are found', () => {
  test.each(['user_id', 'email', 'username'])('by %s, without a mirror', async (column) => {
    const { sandbox, client, journal } = await world();
    const user = sandbox.control.get('users', 7) ?? {};
    const value = String(user[column === 'user_id' ? 'id' : column]);
    const { batch } = await plan(journal, client, sheetOf([[value, 'add', '1']], [column, 'type', 'amount']));
    expect(await intentsOf(journal, batch)).toMatchObject([{ state: 'planned', user: 7, subject: 'user:7' }]);
  });

  test.each(['email', 'username'])('by %s in the mirror, and are confirmed on the server', async (column) => {
    const { sandbox, client, journal } = await world();
    const directory = await mirrorOf(sandbox);
    const name = (id: number): string => String(sandbox.control.get('users', id)?.[column]).toUpperCase();
    const [seven, eight, nine] = [name(7), name(8), name(9)];
    sandbox.control.update('users', 7, { balance: 55 });
    // The name changed since the mirror was read.
    sandbox.control.update('users', 8, { [column]: 'somebody.new@x.example' });
    sandbox.control.remove('users', 9);
    const rows = [seven, eight, nine].map((value) => [value, 'add', '1']);
    const { batch } = await plan(journal, client, sheetOf(rows, [column, 'type', 'amount']), { directory });
    expect(await intentsOf(journal, batch)).toMatchObject([
      { state: 'planned', user: 7, plannedBefore: '55.00' },
      { state: 'invalid', problem: expect.stringMatching(/no user has the/) as string },
      { state: 'invalid', problem: expect.stringMatching(/no user has the/) as string },
    ]);
  });

  test('for a valid row after an invalid one of the same user', async () => {
    const { client, journal } = await world();
    const rows = [
      [7, 'add', 'much'],
      [7, 'add', '1'],
    ];
    const { batch } = await plan(journal, client, sheetOf(rows));
    expect(await intentsOf(journal, batch)).toMatchObject([{ state: 'invalid' }, { state: 'planned', user: 7 }]);
  });

  test('on the server if the mirror does not know them yet', async () => {
    const { sandbox, client, journal } = await world();
    const directory = await mirrorOf(sandbox);
    const id = Number(sandbox.control.insert('users', { balance: 3 })['id']);
    const { batch } = await plan(journal, client, sheetOf([[id, 'add', '1']]), { directory });
    expect(await intentsOf(journal, batch)).toMatchObject([{ state: 'planned', user: id, plannedAfter: '4.00' }]);
  });

  test('in the pages of the list if that takes fewer requests than one for each', async () => {
    const { sandbox, client, journal } = await world({ users: 700 });
    const rows = Array.from({ length: 600 }, (_, at) => [at + 1, 'add', '1']);
    const before = asked(sandbox);
    const { batch, warnings } = await plan(journal, client, sheetOf(rows), { directory: await mirrorOf(sandbox) });
    expect(await journal.counts(batch)).toEqual({ planned: 600 });
    expect(asked(sandbox) - before).toBeLessThan(60);
    expect(warnings.filter((each) => /not checked on the server/.test(each))).toEqual([]);
  });

  test(
    'in smaller pages if the host cannot make large ones, even if one page cannot be read',
    { tags: 'full' },
    async () => {
      const { sandbox, client, journal } = await world({ users: 700 });
      const directory = await mirrorOf(sandbox);
      sandbox.control.setBehaviour({ page_breaks_over: 200, poisoned: 'users:650' });
      sandbox.control.clearRequests();
      const rows = Array.from({ length: 600 }, (_, at) => [at + 1, 'add', '1']);
      const { batch } = await plan(journal, client, sheetOf(rows), { directory });
      expect(await journal.counts(batch)).toEqual({ planned: 600 });
      expect(asked(sandbox)).toBeLessThan(200);
    },
  );

  test(
    'in part if there are too many: the plan says how many were not checked on the server',
    { tags: 'full' },
    async () => {
      const { sandbox, client, journal } = await world({ users: 700, behaviour: { page_max: 2 } });
      const directory = await mirrorOf(sandbox);
      sandbox.control.clearRequests();
      const rows = Array.from({ length: 300 }, (_, at) => [at + 1, 'add', '1']);
      const { warnings } = await plan(journal, client, sheetOf(rows), { directory });
      expect(asked(sandbox)).toBeLessThan(210);
      expect(warnings.join('\n')).toMatch(/^100 users were not checked on the server: .* Each is read again/m);
    },
  );

  test('not at all if several have the name, or if the server ignores the filter', async () => {
    const { sandbox, client, journal } = await world();
    for (const id of [7, 8]) sandbox.control.update('users', id, { first_name: 'x', email: 'two@x.example' });
    const two = await plan(journal, client, sheetOf([['two@x.example', 'add', '1']], ['email', 'type', 'amount']));
    expect(two.problems).toMatchObject([
      { row: 2, column: 'email', problem: expect.stringMatching(/several users .* 7, 8/) as string },
    ]);
    sandbox.control.setBehaviour({ filter_errors: 'email' });
    const none = await plan(journal, client, sheetOf([['no@x.example', 'add', '2']], ['email', 'type', 'amount']));
    expect(none.problems[0]?.problem).toMatch(/does not find users by email.*name the user by user_id/);
  });
});

test('without a complete mirror, a name must be spelled as the server has it', async () => {
  const { sandbox, client, journal } = await world({ users: 205, behaviour: { page_max: 1 } });
  sandbox.control.update('users', 7, { email: 'anna@example.com' });
  sandbox.control.update('users', 8, { email: 'Bo@example.com' });
  const rows = ['ANNA@example.com', 'Bo@example.com'].map((email) => [email, 'add', '1']);
  const { problems } = await plan(journal, client, sheetOf(rows, ['email', 'type', 'amount']));
  const problem =
    'the server has "anna@example.com", and without a complete mirror nobody knows whether others have the same in other letters: write the email like that, name the user by user_id, or sync first';
  expect(problems).toEqual([{ row: 2, column: 'email', problem }]);
});

describe('a plan', () => {
  test('sends nothing, and is stored', async () => {
    const { sandbox, client, journal } = await world();
    const batch = await plan(journal, client, sheetOf([[7, 'add', '1.5', 'Hello']]));
    expect(sandbox.control.ledger()).toEqual([]);
    expect(batch).toMatchObject({
      action: 'balance',
      state: 'planned',
      file: 'credit.csv',
      rows: 1,
      net: '1.50',
      problems: [],
      server: { address: sandbox.url, owner: '1' },
    });
    expect((await intentsOf(journal, batch.batch))[0]?.token).toMatch(/^am:[a-z2-7]{12}$/);
  });

  test('warns if lost responses will need a person', async () => {
    const { client, journal } = await world({ behaviour: { transactions: 'hidden' } });
    const { warnings } = await plan(journal, client, sheetOf([[7, 'add', '1']]));
    expect(warnings.join('\n')).toMatch(/shows no balance transactions: .* a person must find out/);
  });

  test('refuses rows that were sent before, and the same file or rows, unless a reason is given', async () => {
    const { client, journal } = await world();
    const first = await plan(
      journal,
      client,
      sheetOf([
        [7, 'add', '1', 'x'],
        [8, 'add', '1', 'x'],
      ]),
    );
    await send(journal, client, first.batch);
    const some = sheetOf([
      [7, 'add', '1.00', 'in other words'],
      [9, 'add', '1', 'x'],
    ]);
    await expect(plan(journal, client, some)).rejects.toThrow(/1 row was sent before/);
    const meant = await plan(journal, client, some, { againReason: 'two of them' });
    expect(meant.warnings).toEqual([
      expect.stringMatching(
        new RegExp(`^row 2: the same for user 7 was applied on .*, row 2 of batch ${first.batch}$`),
      ),
    ]);
    const sameFile = sheetOf([
      [7, 'add', '1', 'x'],
      [8, 'add', '1', 'x'],
    ]);
    await expect(plan(journal, client, sameFile)).rejects.toThrow(/this file was sent before/);
    const sameRows = sheetOf([
      [8, 'add', '1', 'x'],
      [7, 'add', '1', 'x'],
    ]);
    await expect(plan(journal, client, sameRows)).rejects.toThrow(/the same rows were sent before/);
    const again = await plan(journal, client, sameFile, { againReason: 'March, too' });
    expect(await journal.steps(again.batch)).toMatchObject([
      { kind: 'added', note: null },
      { kind: 'again', note: 'March, too' },
    ]);
  });

  const over: readonly (readonly [string, PlanTry, RegExp])[] = [
    ['rows', { caps: { maxRows: 1 } }, /2 rows, more than bulk.max_rows allows \(1\)/],
    ['money, up and down', { caps: { maxTotal: '9.99' as Money } }, /move 10.00 in all, more than bulk.max_total/],
  ];
  test.each(over)('of too many %s is not stored', async (_, tried, problem) => {
    const { client, journal } = await world();
    const sheet = sheetOf([
      [7, 'add', '5'],
      [8, 'remove', '5'],
    ]);
    await expect(plan(journal, client, sheet, tried)).rejects.toThrow(problem);
    expect(await journal.batches()).toEqual([]);
  });

  test('of more rows than a batch may have is refused before the server or the mirror is read', async () => {
    const { sandbox, client, journal } = await world();
    const rows = [7, 8, 'nobody'].map((user) => [user, 'add', '1']);
    const unasked = new Proxy({} as UserDirectory, { get: () => expect.unreachable('the mirror is asked') });
    const before = asked(sandbox);
    const tried = { caps: { maxRows: 2 }, directory: unasked };
    await expect(plan(journal, client, sheetOf(rows), tried)).rejects.toMatchObject({
      message: 'there are 3 rows, more than bulk.max_rows allows (2); nothing was planned',
      exitCode: 2,
    });
    expect(asked(sandbox) - before).toBe(0);
  });

  test('of a file with a wrong header has only invalid rows, and each problem of the header is reported once', async () => {
    const { client, journal } = await world();
    const { batch, problems } = await plan(
      journal,
      client,
      sheetOf(
        [
          [7, 'add', '1'],
          [8, 'add', '1'],
        ],
        ['user', 'type', 'amount'],
      ),
    );
    expect(problems.map(({ row }) => row)).toEqual([1, 1, 2, 3]);
    expect(await journal.counts(batch)).toEqual({ invalid: 2 });
  });

  test('with a key that is refused ends with 3', async () => {
    const { sandbox, journal } = await world();
    const client = bulkClient({ url: sandbox.url, key: 'other' });
    await expect(plan(journal, client, sheetOf([[7, 'add', '1']]))).rejects.toMatchObject({ exitCode: 3 });
  });
});
