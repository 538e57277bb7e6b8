// @module-tag full
/** Compares the journal with the server. Whatever older journal is restored, nobody is paid twice. */
import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import type { Finding } from '../../src/bulk/differences.ts';
import type { Behaviour } from '../support/bent/sandbox.ts';
import { newUser } from '../support/bulk.ts';
import { bulkWorld, type BulkWorld, creditFile, csv, made } from '../support/bulk-cli.ts';
import { sandboxNow } from '../support/sandbox.ts';

interface Compared {
  readonly status: string;
  readonly rows: number;
  readonly users: number;
  readonly requests: number;
  readonly differences: readonly Finding[];
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
    expect((await bulk(['reconcile', '--accept-journal'])).stderr).toMatch(/needs a reason/);
    expect(made(sandbox)).toBe(before);
    const reason = 'asked the shop';
    expect((await bulk(['reconcile', '--accept-journal', '--reason', reason])).code).toBe(0);
    expect((await bulk(['run', 'balance', name, '--yes'])).code).toBe(0);
    const { steps } = JSON.parse((await command(['audit', '--json'])).stdout) as {
      steps: { kind: string; note: string }[];
    };
    expect(steps.filter(({ kind }) => kind === 'accepted').map(({ note }) => note)).toEqual([reason]);
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
});
