// @module-tag full
/** Compares the journal with the server. Whatever older journal is restored, nobody is paid twice. */
import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import type { Finding } from '../../src/bulk/differences.ts';
import type { Behaviour } from '../../src/sandbox/sandbox.ts';
import { newUser } from '../support/bulk.ts';
import { bulkWorld, type BulkWorld, creditFile, csv, made } from '../support/bulk-cli.ts';
import { minuteMs } from '../../src/model/time.ts';
import { sandboxNow } from '../support/sandbox.ts';

interface Compared {
  readonly status: string;
  readonly rows: number;
  readonly users: number;
  readonly requests: number;
  readonly differences: readonly Finding[];
  readonly reversals: readonly Finding[];
  readonly problems: readonly string[];
  readonly adopted?: { readonly batch: string | null; readonly rows: number; readonly recorded: number };
}

const journalOf = ({ folder }: BulkWorld): string => join(folder, 'data', 'journal.db');

function removeJournal(world: BulkWorld): void {
  for (const end of ['', '-wal', '-shm']) rmSync(journalOf(world) + end, { force: true });
}

function putBack(world: BulkWorld, copy: string): void {
  removeJournal(world);
  copyFileSync(copy, journalOf(world));
}

async function reconcile(world: BulkWorld, args: readonly string[] = []) {
  const done = await world.bulk(['reconcile', ...args, '--json']);
  return { ...done, compared: () => JSON.parse(done.stdout) as Compared };
}

const adopt = (world: BulkWorld, ...args: readonly string[]) =>
  reconcile(world, ['--adopt', '--settle-after', '0s', ...args]);

/** A mirror, a batch from yesterday, a copy of the journal from then, and a batch from today. */
async function twoDays(behaviour: Partial<Behaviour> = {}) {
  const world = await bulkWorld(behaviour);
  world.sandbox.control.advanceClock(Date.now() - sandboxNow);
  const yesterday = creditFile(world, 2, '5', 'yesterday.csv');
  const today = creditFile(world, 3, '7', 'today.csv');
  await world.command(['sync']);
  await world.bulk(['run', 'balance', yesterday.name, '--yes']);
  const copy = `${journalOf(world)}.copy`;
  copyFileSync(journalOf(world), copy);
  const { batch } = (await world.bulk(['run', 'balance', today.name, '--yes', '--json'])).report();
  return { ...world, world, yesterday, today, copy, batch };
}

type TwoDays = Awaited<ReturnType<typeof twoDays>>;

/** Removes a batch from the middle of the journal; later ones stay. */
async function cutOut({ world, bulk, batch }: TwoDays): Promise<void> {
  await bulk(['run', 'balance', creditFile(world, 1, '3', 'later.csv').name, '--yes']);
  const database = new SqliteDatabase(journalOf(world));
  for (const table of ['journal_steps', 'journal_intents', 'journal_batches']) {
    database.prepare(`DELETE FROM ${table} WHERE batch = ?`).run(batch);
  }
  database.close();
}

const harms: readonly (readonly [string, (days: TwoDays) => Promise<void> | void])[] = [
  ['that was lost', ({ world }) => removeJournal(world)],
  ['from last night', ({ world, copy }) => putBack(world, copy)],
  [
    'of another machine',
    async ({ world, bulk, file }) => {
      const other = file(`${csv}${newUser(world.sandbox, 10)},add,1,x\n`, 'other.csv');
      const environment = { ...world.environment, ADMIN_MIRROR_JOURNAL: 'other.db' };
      await bulk(['plan', 'balance', other], { environment });
      putBack(world, join(world.folder, 'other.db'));
    },
  ],
  ['that was cut in the middle', cutOut],
];

describe('a journal', () => {
  // proves: newest-journal
  test.each(harms)(
    '%s sends nothing until --adopt has recorded what it lacks, and then refuses the same file',
    async (_, harm) => {
      const days = await twoDays();
      const { world, sandbox, bulk, command, today } = days;
      await harm(days);
      const before = made(sandbox);
      const again = () => bulk(['run', 'balance', today.name, '--yes']);
      const refused = await again();
      expect([refused.code, refused.stderr]).toEqual([
        2,
        expect.stringMatching(/nothing was sent\n.*reconcile --adopt/s),
      ]);
      const byHand = await command([
        'users',
        'update-balance',
        String(today.users[0]),
        '--type',
        'add',
        '--amount',
        '1',
        '--yes',
      ]);
      expect(byHand.code).toBe(2);
      const adopted = await adopt(world);
      expect([adopted.code, adopted.compared()]).toMatchObject([0, { status: 'equal', differences: [] }]);
      const second = await again();
      expect([second.code, second.stderr]).toEqual([2, expect.stringMatching(/sent before/)]);
      expect(made(sandbox)).toBe(before);
      const { code } = await bulk(['run', 'balance', creditFile(world, 1, '2', 'new.csv').name, '--yes']);
      expect([code, made(sandbox)]).toEqual([0, before + 1]);
      expect((await reconcile(world)).compared()).toMatchObject({ status: 'equal' });
    },
  );

  test('from last night records adopted rows in their own batch, and its chain is whole', async () => {
    const { world, copy, bulk, command, today } = await twoDays();
    putBack(world, copy);
    const { adopted } = (await adopt(world)).compared();
    expect(adopted).toMatchObject({ rows: 3, recorded: 0 });
    const batch = adopted?.batch ?? '';
    const report = (await bulk(['status', batch, '--json'])).report();
    expect(report).toMatchObject({ state: 'done', file: null, applied_net: '21.00', counts: { applied: 3 } });
    const { steps } = JSON.parse((await command(['audit', '--batch', batch, '--json'])).stdout) as {
      steps: { kind: string; user: number | null; evidence: string | null; actor: { name: string } }[];
    };
    expect(steps.map(({ kind }) => kind)).toEqual(['adopted', 'adopted', 'adopted', 'adopted']);
    expect(steps.slice(1).map(({ user, evidence }) => [user, evidence])).toEqual(
      today.users.map((user) => [user, 'token']),
    );
    expect(JSON.parse((await command(['audit', '--verify', '--json'])).stdout)).toMatchObject({ status: 'whole' });
  });

  test('from before a planned batch was sent records its rows as applied, and refuses the same file', async () => {
    const world = await bulkWorld();
    const { sandbox, bulk, command } = world;
    sandbox.control.advanceClock(Date.now() - sandboxNow);
    const { name, users } = creditFile(world, 2);
    await command(['sync']);
    const { batch, hash } = (await bulk(['plan', 'balance', name, '--json'])).report();
    const copy = `${journalOf(world)}.copy`;
    copyFileSync(journalOf(world), copy);
    await bulk(['apply', batch, '--approve', hash]);
    putBack(world, copy);
    expect((await bulk(['apply', batch, '--approve', hash])).code).toBe(2);
    const { code, stdout } = await bulk(['reconcile', '--adopt', '--settle-after', '0s']);
    expect([code, stdout]).toEqual([0, expect.stringContaining('2 rows of this journal that were applied without it')]);
    expect(stdout).not.toMatch(/^adopted/m);
    expect((await bulk(['status', batch, '--json'])).report()).toMatchObject({ state: 'done', counts: { applied: 2 } });
    const other = world.file(csv + users.map((user) => `${user},add,5.00,b\n`).join(''), 'other.csv');
    for (const each of [name, other]) expect((await bulk(['run', 'balance', each, '--yes'])).code).toBe(2);
    expect(made(sandbox)).toBe(2);
    expect(JSON.parse((await command(['audit', '--verify', '--json'])).stdout)).toMatchObject({ status: 'whole' });
  });

  test('that adopted an undo does not send it again', async () => {
    const { world, sandbox, bulk, batch, copy } = await twoDays();
    copyFileSync(journalOf(world), copy);
    const undo = (await bulk(['undo', batch, '--json'])).report();
    await bulk(['apply', undo.batch, '--approve', undo.hash]);
    putBack(world, copy);
    await adopt(world);
    const before = made(sandbox);
    const second = (await bulk(['undo', batch, '--json'])).report();
    const { code, stderr } = await bulk(['apply', second.batch, '--approve', second.hash]);
    expect([code, made(sandbox), stderr]).toEqual([2, before, expect.stringMatching(/sent before/)]);
  });

  test('does not adopt while an unknown request may still be made late', async () => {
    const { world, copy } = await twoDays();
    putBack(world, copy);
    const { code, stderr } = await world.bulk(['reconcile', '--adopt']);
    expect([code, stderr]).toEqual([5, expect.stringMatching(/may still be made late/)]);
    expect((await world.bulk(['run', 'balance', 'today.csv', '--yes'])).code).toBe(2);
  });

  test('on a server without transactions can be accepted by a person once, with a reason that is recorded', async () => {
    const { world, copy, sandbox, bulk, command } = await twoDays({ transactions: 'hidden' });
    putBack(world, copy);
    const { code, compared } = await adopt(world);
    expect([code, compared()]).toMatchObject([5, { status: 'incomplete' }]);
    const before = made(sandbox);
    const { name } = creditFile(world, 1, '2', 'new.csv');
    expect((await bulk(['run', 'balance', name, '--yes'])).code).toBe(2);
    expect((await bulk(['run', 'balance', name, '--yes', '--accept-journal'])).stderr).toMatch(/needs a reason/);
    expect((await bulk(['reconcile', '--accept-journal'])).code).toBe(2);
    expect(made(sandbox)).toBe(before);
    const reason = 'asked the shop';
    expect((await bulk(['run', 'balance', name, '--yes', '--accept-journal', '--reason', reason])).code).toBe(0);
    const { steps } = JSON.parse((await command(['audit', '--json'])).stdout) as {
      steps: { kind: string; note: string }[];
    };
    expect(steps.filter(({ kind }) => kind === 'accepted').map(({ note }) => note)).toEqual([reason]);
    const next = creditFile(world, 1, '2', 'next.csv').name;
    expect((await bulk(['run', 'balance', next, '--yes'])).code).toBe(0);
  });

  test('that is the newest can be used with an older mirror', async () => {
    const { world, folder, bulk } = await twoDays();
    const mirror = join(folder, 'data', 'mirror.db');
    const database = new SqliteDatabase(mirror);
    database.prepare(`VACUUM INTO ?`).run(`${mirror}.copy`);
    database.close();
    await bulk(['run', 'balance', creditFile(world, 1, '2', 'new.csv').name, '--yes']);
    for (const end of ['', '-wal', '-shm']) rmSync(mirror + end, { force: true });
    copyFileSync(`${mirror}.copy`, mirror);
    const next = creditFile(world, 1, '2', 'next.csv').name;
    expect((await bulk(['run', 'balance', next, '--yes'])).code).toBe(0);
  });
});

describe('reconcile', () => {
  const kinds = (compared: Compared) => compared.differences.map(({ kind, user_id: user }) => `${kind} ${user}`);

  /** Changes the user's transactions on the server. */
  function edit(
    { sandbox }: BulkWorld,
    user: number | undefined,
    change: (all: Record<string, unknown>[]) => void,
  ): void {
    const id = user ?? 0;
    const all = structuredClone(sandbox.control.related('users', id, 'balance_transactions')) as Record<
      string,
      unknown
    >[];
    change(all);
    sandbox.control.setRelated('users', id, 'balance_transactions', all);
  }

  test('reports missing, repeated, changed and unknown transactions, ends with 5, and changes nothing', async () => {
    const days = await twoDays();
    const { world, today, yesterday, bulk, command } = days;
    expect((await reconcile(world)).compared()).toMatchObject({ status: 'equal', rows: 5, differences: [] });
    const [a, b, c] = today.users;
    edit(world, a, (all) => void all.pop());
    edit(world, b, (all) => void all.push({ ...all[0], id: 9_001 }));
    edit(world, c, (all) => void Object.assign(all[0] ?? {}, { amount: 70 }));
    const [d] = yesterday.users;
    edit(world, d, (all) => void all.push({ ...all[0], id: 9_002, description: 'Bonus am:abcdefghijkl' }));
    const head = async () =>
      (JSON.parse((await command(['audit', '--verify', '--json'])).stdout) as { head: unknown }).head;
    const before = await head();
    const { code, compared } = await reconcile(world);
    expect([code, kinds(compared()).toSorted()]).toEqual([
      5,
      [`missing ${a}`, `repeated ${b}`, `amount ${c}`, `unknown ${d}`].toSorted(),
    ]);
    expect(await head()).toEqual(before);
    const ofBatch = await reconcile(world, [days.batch]);
    expect(kinds(ofBatch.compared())).toEqual([`missing ${a}`, `repeated ${b}`, `amount ${c}`]);
    const sheet = await bulk(['reconcile', '--format', 'csv']);
    expect([sheet.code, sheet.stdout.split('\n').length]).toEqual([5, 6]);
    const table = await bulk(['reconcile']);
    expect(table.stdout).toMatch(/different, 4 differences: 5 rows/);
  });

  test('leaves out what was sent outside the given period', async () => {
    const { world } = await twoDays();
    expect((await reconcile(world, ['--since', '1d'])).compared()).toMatchObject({ status: 'equal', rows: 5 });
    expect((await reconcile(world, ['--until', '2026-01-01'])).compared()).toMatchObject({ status: 'equal', rows: 0 });
    expect((await world.bulk(['reconcile', '--until', '2026-01-01', '--since', '1d'])).code).toBe(2);
  });

  test('does not report reversals by a batch or by hand as differences', async () => {
    const { world, bulk, command, batch, yesterday } = await twoDays();
    const undo = (await bulk(['undo', batch, '--json'])).report();
    await bulk(['apply', undo.batch, '--approve', undo.hash]);
    const [user = 0] = yesterday.users;
    await command(['users', 'update-balance', String(user), '--type', 'remove', '--amount', '5', '--yes']);
    const { code, compared } = await reconcile(world);
    const { status, reversals } = compared();
    expect([code, status, reversals.length]).toEqual([0, 'equal', 4]);
    expect(reversals.filter(({ note }) => note.includes(undo.batch))).toHaveLength(3);
  });

  test('knows the correction of a payment that was made twice, and never asks for it again', async () => {
    const world = await bulkWorld();
    const { sandbox, bulk, command } = world;
    sandbox.control.advanceClock(Date.now() - sandboxNow);
    const { name, users } = creditFile(world, 2, '3');
    await command(['sync']);
    const { batch, hash } = (await bulk(['plan', 'balance', name, '--json'])).report();
    sandbox.control.faultNext({ fault: 'commit_twice', match: { method: 'PUT' } });
    const { code, stderr } = await bulk(['apply', batch, '--approve', hash]);
    expect(code).toBe(8);
    const before = await reconcile(world);
    expect([before.code, kinds(before.compared())]).toEqual([5, [`repeated ${users[0]}`]]);
    const [, printed = '', description = ''] = /admin-mirror (users .* )--description "([^"]*)"/.exec(stderr) ?? [];
    const correction = [...printed.trim().split(' '), '--description', description];
    expect((await command([...correction, '--yes'])).code).toBe(0);
    await bulk(['resolve', batch, '--row', '2', '--applied', '--reason', 'took it back']);
    expect((await bulk(['resume', batch, '--json'])).report().counts.applied).toBe(2);
    const after = await reconcile(world);
    expect([after.code, after.compared().reversals]).toMatchObject([
      0,
      [{ kind: 'reversed', row: 2, note: 'it was made 2 times, and 1 of them was taken back' }],
    ]);
    removeJournal(world);
    const adopted = await adopt(world);
    expect([adopted.code, adopted.compared().adopted]).toMatchObject([0, { rows: 2 }]);
    const resumed = await bulk(['resume', adopted.compared().adopted?.batch ?? '']);
    expect([resumed.code, resumed.stderr]).toEqual([0, expect.not.stringContaining('update-balance')]);
    expect((await reconcile(world)).code).toBe(0);
    expect(users.map((user) => Number(sandbox.control.get('users', user)?.['balance']))).toEqual([13, 13]);
  });

  test('adopts a row that was made twice as one that needs a person, and reports it until it is taken back', async () => {
    const world = await bulkWorld();
    const { sandbox, bulk, command } = world;
    sandbox.control.advanceClock(Date.now() - sandboxNow);
    const { name, users } = creditFile(world, 2, '3');
    await command(['sync']);
    sandbox.control.faultNext({ fault: 'commit_twice', match: { method: 'PUT' } });
    expect((await bulk(['run', 'balance', name, '--yes'])).code).toBe(8);
    removeJournal(world);
    const { code, compared } = await adopt(world);
    const batch = compared().adopted?.batch ?? '';
    expect([code, compared()]).toMatchObject([
      5,
      {
        status: 'different',
        adopted: { rows: 1, recorded: 0 },
        differences: [{ kind: 'repeated', user_id: users[0], batch, row: 2, state: 'needs_human' }],
      },
    ]);
    expect((await bulk(['status', batch, '--json'])).report()).toMatchObject({ state: 'stopped' });
    for (const again of [await bulk(['reconcile', '--adopt', '--settle-after', '0s']), await bulk(['reconcile'])]) {
      expect([again.code, again.stdout]).toEqual([5, expect.stringMatching(/different, 1 difference/)]);
      expect(again.stdout).not.toMatch(/^(recorded|adopted)/m);
    }
    const resumed = await bulk(['resume', batch]);
    const asked = `users update-balance ${users[0]} --type remove --amount 3.00 --description "Correction of`;
    expect([resumed.code, resumed.stderr]).toEqual([8, expect.stringContaining(asked)]);
    const [, description = ''] = /--description "([^"]*)"/.exec(resumed.stderr) ?? [];
    const amount = ['--type', 'remove', '--amount', '3.00'];
    await command(['users', 'update-balance', String(users[0]), ...amount, '--description', description, '--yes']);
    expect((await bulk(['resume', batch])).code).toBe(0);
    expect((await reconcile(world)).code).toBe(0);
    expect((await bulk(['status', batch, '--json'])).report()).toMatchObject({ state: 'done', counts: { applied: 1 } });
  });

  test('does not count a row that turns out to have been made twice as recorded', async () => {
    const { world, bulk, batch, today } = await twoDays();
    edit(world, today.users[0], (all) => void all.push({ ...all[0], id: 9_001 }));
    const { code, stdout } = await bulk(['reconcile', '--adopt', '--settle-after', '0s']);
    expect([code, stdout]).toEqual([5, expect.stringMatching(/different, 1 difference/)]);
    expect(stdout).not.toMatch(/^recorded/m);
    expect((await bulk(['status', batch, '--json'])).report()).toMatchObject({
      state: 'stopped',
      counts: { unknown: 1 },
    });
  });

  test('sends one request per page, or one per user of a small batch', async () => {
    const { world, batch, sandbox } = await twoDays();
    const sent = () => sandbox.control.requests().recent.length;
    const before = sent();
    const { compared } = await reconcile(world, [batch]);
    expect([compared().requests, sent() - before]).toEqual([3, 3]);
    const whole = await reconcile(world);
    expect(whole.compared().requests).toBe(1);
    expect(whole.stderr).toMatch(/about 0 more requests/);
  });

  test('neither compares with nor adopts from an old response of a cache', async () => {
    const days = await twoDays();
    putBack(days.world, days.copy);
    const { control } = days.sandbox;
    // The cache keeps responses from now on.
    control.setBehaviour({ cache_seconds: 3_000, cache_obeys: false });
    await reconcile(days.world);
    control.advanceClock(20 * minuteMs);
    for (const ended of [await reconcile(days.world), await adopt(days.world)]) {
      expect([ended.code, ended.stderr]).toEqual([5, expect.stringMatching(/a response that was 1\d{3} s old/)]);
    }
    control.setBehaviour({ cache_seconds: 0 });
    expect((await adopt(days.world)).compared().adopted).toMatchObject({ rows: 3 });
  });

  test('is incomplete if a list is empty for a minute', async () => {
    const { world, sandbox } = await twoDays();
    sandbox.control.setBehaviour({ empty_lists: 'users' });
    const { code, compared } = await reconcile(world);
    expect([code, compared().status]).toEqual([5, 'incomplete']);
  });
});
