/** Nobody is paid twice, whatever people do with two terminals and other files. */
import { spawn } from 'node:child_process';
import { copyFileSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { BatchReport } from '../../src/bulk/report.ts';
import { newUser } from '../support/bulk.ts';
import { bulkWorld, type BulkWorld, creditFile, csv, made, whenMade } from '../support/bulk-cli.ts';
import { finished, startCli } from '../support/cli.ts';
import { commandFile } from '../support/command-file.ts';
import { enter } from '../support/dialogue.ts';
import { invoke } from '../support/invoke.ts';
import { openTerminal } from '../support/terminal.ts';
import { sample } from '../support/part.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const total = '10.00';

/** The command in a terminal, waiting at its prompt. */
async function atPrompt({ folder, environment }: BulkWorld, args: readonly string[]) {
  const terminal = openTerminal(['bulk', ...args], { folder, environment });
  await terminal.shows(`type ${total}`);
  return terminal;
}

async function planned(world: BulkWorld, file: string): Promise<BatchReport> {
  return (await world.bulk(['plan', 'balance', file, '--json'])).report();
}

describe('two terminals', () => {
  test('at the prompt for one file pay once: the second confirmation is refused with 2', { tags: 'full' }, async () => {
    const world = await bulkWorld();
    const { name } = creditFile(world, 2);
    const args = ['run', 'balance', name];
    const [first, second] = [await atPrompt(world, args), await atPrompt(world, args)];
    first.type(`${total}${enter}`);
    expect((await first.ended).code).toBe(0);
    second.type(`${total}${enter}`);
    const { code, stdout } = await second.ended;
    expect([code, made(world.sandbox)]).toEqual([2, 2]);
    // The second went on with the plan of the first.
    expect(stdout).toMatch(/error:.* batch \S+ was approved before/);
  });

  test('that confirm at the same moment on a slow server pay once, even after resume', { tags: 'full' }, async () => {
    const world = await bulkWorld({ latency: 30 });
    const { users, name } = creditFile(world, 4);
    const other = world.file(
      `${csv}${users
        .toReversed()
        .map((user) => `${user},add,5,b\n`)
        .join('')}`,
      'other.csv',
    );
    const plans = [await planned(world, name), await planned(world, other)];
    const codes = await Promise.all(
      plans.map(async ({ batch, hash }) => (await world.bulk(['apply', batch, '--approve', hash])).code),
    );
    expect(codes.toSorted((a, b) => a - b)).toEqual([0, 2]);
    for (const { batch } of plans) await world.bulk(['resume', batch]);
    expect(made(world.sandbox)).toBe(4);
  });

  test('on one batch: the second ends with 7 while the first runs', { tags: 'full' }, async () => {
    const world = await bulkWorld({ latency: 50 });
    const { name } = creditFile(world, 8);
    const { batch, hash } = await planned(world, name);
    const { folder, environment } = world;
    const child = startCli(['bulk', 'apply', batch, '--approve', hash], { folder, environment });
    const ended = finished(child);
    await whenMade(world.sandbox, 1, child);
    expect((await world.bulk(['apply', batch, '--approve', hash])).code).toBe(7);
    expect((await world.bulk(['resume', batch])).code).toBe(7);
    expect((await ended).code).toBe(0);
    expect(made(world.sandbox)).toBe(8);
  });
});

describe('standard output that cannot be written', () => {
  test.each(
    sample(
      [
        ['a batch', (world: BulkWorld) => ['bulk', 'run', 'balance', creditFile(world, 1).name, '--yes']],
        [
          'a write by hand',
          ({ sandbox }: BulkWorld) =>
            `users update-balance ${newUser(sandbox, 10)} --type add --amount 5 --yes`.split(' '),
        ],
      ],
      1,
    ),
  )('does not let %s that was sent end as if nothing was sent', async (_, argsOf) => {
    const world = await bulkWorld();
    const { sandbox, folder, environment } = world;
    const command = `exec "$0" "$@" > /dev/full`;
    const { PATH = '', HOME = '' } = process.env;
    const child = spawn('bash', ['-c', command, process.execPath, commandFile, ...argsOf(world)], {
      cwd: folder,
      env: { PATH, HOME, ...environment },
    });
    child.stdin.end();
    const { code, stderr } = await finished(child);
    expect([code, made(sandbox)]).toEqual([5, 1]);
    expect(stderr).toMatch(/could not write to standard output/);
  });
});

test('a batch that is undone in two terminals at once is planned once, and the other one says so', async () => {
  const world = await bulkWorld({ latency: 30 });
  const { bulk } = world;
  const { batch } = (await bulk(['run', 'balance', creditFile(world, 2).name, '--yes', '--json'])).report();
  const ends = await Promise.all([bulk(['undo', batch]), bulk(['undo', batch])]);
  expect(ends.map(({ code }) => code).toSorted((a, b) => a - b)).toEqual([0, 2]);
  expect(ends.map(({ stderr }) => stderr).join()).toMatch(/being taken back by another batch at this moment/);
});

describe('a row that was paid', () => {
  async function paid() {
    const world = await bulkWorld();
    const { users, name } = creditFile(world, 2);
    const sent = (await world.bulk(['run', 'balance', name, '--yes', '--json'])).report();
    const [a = 0, b = 0] = users;
    return { ...world, a, b, batch: sent.batch };
  }

  test.each(
    sample(
      [
        [
          'with a row more',
          (a: number, b: number, c: number) => [`${a},add,5,Credit`, `${b},add,5,Credit`, `${c},add,5,x`],
        ],
        ['with a row less', (a: number) => [`${a},add,5,Credit`]],
        ['in another order', (a: number, b: number) => [`${b},add,5,Credit`, `${a},add,5,Credit`]],
        ['in other words', (a: number, b: number) => [`${a},add,5,credit`, `${b},add,5.00,Credit`]],
      ],
      2,
    ),
  )('is not paid again from a file %s, and its batch is named', async (_, rowsOf) => {
    const { sandbox, bulk, file, a, b, batch } = await paid();
    const name = file(csv + rowsOf(a, b, newUser(sandbox, 10)).join('\n'), 'again.csv');
    const { code, stderr } = await bulk(['run', 'balance', name, '--yes']);
    expect([code, made(sandbox)]).toEqual([2, 2]);
    expect(stderr).toContain(batch);
    const meant = await bulk(['run', 'balance', name, '--yes', '--again', '--reason', 'a second month']);
    expect(meant.code).toBe(0);
    expect(made(sandbox)).toBeGreaterThan(2);
  });

  test('by hand is named, too', async () => {
    const { sandbox, command, bulk, file } = await paid();
    const user = newUser(sandbox, 10);
    await command(['users', 'update-balance', String(user), '--type', 'add', '--amount', '5', '--yes']);
    const { code, stderr } = await bulk(['plan', 'balance', file(`${csv}${user},add,5.00,x\n`, 'hand.csv')]);
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(new RegExp(`row 2: the same for user ${user} .*by hand`)),
    ]);
  });

  test.each(sample(['commit_503', 'commit_429', 'commit_refused', 'commit_500'] as const, 1))(
    'by hand is found whatever the server responded: %s',
    async (fault) => {
      const { sandbox, command, bulk, file } = await bulkWorld();
      const user = newUser(sandbox, 10);
      sandbox.control.faultNext({ fault, match: { method: 'PUT' } });
      await command(['users', 'update-balance', String(user), '--type', 'add', '--amount', '5', '--yes']);
      const { code } = await bulk(['run', 'balance', file(`${csv}${user},add,5.00,x\n`, 'hand.csv'), '--yes']);
      expect([code, made(sandbox)]).toEqual([2, 1]);
    },
  );

  test('is refused from applied.csv, because the file says that it is applied', async () => {
    const { sandbox, folder, bulk, batch } = await paid();
    await bulk(['results', batch, '-o', 'out']);
    rmSync(join(folder, 'data', 'journal.db'));
    const { code, stdout } = await bulk(['plan', 'balance', 'out/applied.csv']);
    expect([code, made(sandbox)]).toEqual([2, 2]);
    expect(stdout).toMatch(/row 2, _state: the file says that this row is applied/);
  });
});

test('a journal that sends the same file at the same moment as another one notices it, and stops', async () => {
  const world = await bulkWorld();
  const { sandbox, folder, environment } = world;
  const other = temporaryFolder();
  const { name } = creditFile(world, 5);
  copyFileSync(join(folder, name), join(other, name));
  const at = (where: string, ...argv: string[]) => invoke(['bulk', ...argv], { folder: where, environment });
  const apply = async (where: string) => {
    const { stdout } = await at(where, 'plan', 'balance', name, '--json');
    const { batch, hash } = JSON.parse(stdout) as BatchReport;
    return () => at(where, 'apply', batch, '--approve', hash);
  };
  const both = [await apply(folder), await apply(other)];
  const ends = await Promise.all(both.map((each) => each()));
  const stopped = ends.filter(({ code }) => code === 8);
  expect(stopped.length).toBeGreaterThan(0);
  for (const { stderr } of stopped) expect(stderr).toMatch(/which is not in this journal/);
  expect(made(sandbox)).toBeLessThan(8);
});

describe('a journal that is not the newest', () => {
  test('and comes from a copy sends nothing: the server has the token of a row', async () => {
    const world = await bulkWorld({ write_hang: 0 });
    const { sandbox, folder, bulk, command } = world;
    const { name, users } = creditFile(world, 3);
    const { batch, hash } = await planned(world, name);
    sandbox.control.faultNext({ fault: 'reset_before', match: { method: 'PUT', path: `/users/${users[2]}/` } });
    const journal = join(folder, 'data', 'journal.db');
    const copy = readFileSync(journal);
    await bulk(['apply', batch, '--approve', hash]);
    expect(made(sandbox)).toBe(2);
    for (const end of ['-wal', '-shm']) rmSync(journal + end, { force: true });
    writeFileSync(journal, copy);
    const again = await bulk(['apply', batch, '--approve', hash]);
    expect([again.code, again.stderr]).toEqual([8, expect.stringMatching(/this journal is older than the server/)]);
    expect((await bulk(['status', batch])).stdout).toMatch(/older than the server/);
    const before = made(sandbox);
    const byHand = await command([
      'users',
      'update-balance',
      String(users[0]),
      '--type',
      'add',
      '--amount',
      '5',
      '--yes',
    ]);
    expect([byHand.code, byHand.stderr]).toEqual([8, expect.stringMatching(/this journal is older than the server/)]);
    expect(made(sandbox)).toBe(before);
    for (let time = 0; time < 3; time += 1) expect((await bulk(['resume', batch])).code).toBe(8);
    expect(made(sandbox)).toBe(2);
    // The way to continue: adopt finds each row, and resume sends the rest.
    const found = (await bulk(['reconcile', batch, '--adopt', '--json'])).report();
    expect(found.counts).toMatchObject({ applied: 2, planned: 1 });
    expect((await bulk(['resume', batch, '--json'])).report().counts.applied).toBe(3);
    expect(made(sandbox)).toBe(3);
  });

  test.each(
    sample(
      [
        ['removed', (file: string) => rmSync(file)],
        ['emptied', (file: string) => truncateSync(file)],
        ['cut', (file: string) => truncateSync(file, Math.floor(statSync(file).size / 2))],
        ['replaced', (file: string) => copyFileSync(file, `${file}.copy`, 0)],
      ],
      1,
    ),
  )('because it was %s during a run stops the batch with 8 and a report', async (how, harm) => {
    const world = await bulkWorld({ latency: 20 });
    const { sandbox, folder, environment } = world;
    const { name } = creditFile(world, 20);
    const child = startCli(['bulk', 'run', 'balance', name, '--yes', '--json'], { folder, environment });
    const ended = finished(child);
    await whenMade(sandbox, 3, child);
    const journal = join(folder, 'data', 'journal.db');
    harm(journal);
    if (how === 'replaced') {
      rmSync(journal);
      copyFileSync(`${journal}.copy`, journal);
    }
    const { code, stdout, stderr } = await ended;
    expect([code, stderr]).toEqual([8, expect.stringMatching(/was removed, cut or replaced while it was in use/)]);
    expect((JSON.parse(stdout) as BatchReport).counts.planned).toBeGreaterThan(0);
    expect(made(sandbox)).toBeLessThan(20);
  });
});
