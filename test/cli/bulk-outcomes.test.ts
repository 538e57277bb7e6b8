/** What becomes of money where the server, the disk or another user is not as one expects, and what is said of it. */
import { spawn } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { BatchReport } from '../../src/bulk/report.ts';
import type { Behaviour, Fault } from '../../src/sandbox/sandbox.ts';
import { newUser } from '../support/bulk.ts';
import { bulkWorld, creditFile, csv, made } from '../support/bulk-cli.ts';
import { finished } from '../support/cli.ts';
import { commandFile } from '../support/command-file.ts';
import { sample } from '../support/part.ts';

/** One row for a user with a balance of 10, whose request the server fails as it is told. */
async function oneRow(row: string, behaviour: Partial<Behaviour> = {}, fault?: Fault) {
  const world = await bulkWorld({ retry_after_seconds: 0, late_commit_ms: 60_000, ...behaviour });
  const { sandbox, bulk, file } = world;
  const user = newUser(sandbox, 10);
  const name = file(`${csv}${user},${row}\n`);
  if (fault !== undefined) sandbox.control.faultNext({ fault, match: { method: 'PUT' } });
  const run = async (...more: string[]) => {
    const done = await bulk(['run', 'balance', name, '--yes', '--json', ...more]);
    return { code: done.code, stderr: done.stderr, ...done.report() };
  };
  return { ...world, user, run };
}

describe('a mark', () => {
  test.each(
    sample(
      [
        ['A bonus of the blue team', { description_max: 20 }],
        ['Exam', { description_max: 9 }],
        ['A gift', { description_max: 8, description_form: 'upper' }],
      ] as const,
      1,
    ),
  )('that is cut off of "%s" never makes a row that moved the balance not applied', async (text, behaviour) => {
    const { bulk, run, sandbox } = await oneRow(`add,5,${text}`, behaviour, 'commit_reset');
    const { code, batch, counts } = await run('--settle-after', '0s');
    expect([code, counts.unknown, counts.rejected]).toEqual([8, 1, 0]);
    expect((await bulk(['resume', batch, '--settle-after', '0s'])).code).toBe(8);
    expect(made(sandbox)).toBe(1);
  });

  test.each(sample([{ description_form: 'upper' }, { description_form: 'escaped' }] as const, 1))(
    'is found however the server writes it down: %j',
    async (behaviour) => {
      const { run } = await oneRow('add,5,"Tom & ""Co"""', behaviour, 'commit_reset');
      expect(await run()).toMatchObject({ code: 0, counts: { applied: 1 } });
    },
  );
});

describe('a server that asks to come back later although it has written', () => {
  test.each(sample(['commit_429', 'commit_503'] as const, 1))(
    '%s: the token is found, and nothing goes out again',
    async (fault) => {
      const { run, sandbox } = await oneRow('add,5,Credit', {}, fault);
      expect(await run()).toMatchObject({ code: 0, counts: { applied: 1 } });
      expect(made(sandbox)).toBe(1);
    },
  );

  test.each(sample(['commit_429', 'commit_503'] as const, 1))(
    '%s, and hides transactions: the balance has moved, so it is unknown',
    async (fault) => {
      const { bulk, run, sandbox } = await oneRow('add,5,Credit', { transactions: 'hidden' }, fault);
      const { code, batch } = await run();
      expect(code).toBe(8);
      await bulk(['resume', batch, '--settle-after', '0s']);
      expect(made(sandbox)).toBe(1);
    },
  );

  test.each(sample(['too_many', 'error_503'] as const, 1))(
    '%s without having written, is waited for',
    async (fault) => {
      const { run, sandbox } = await oneRow('add,5,Credit', { transactions: 'hidden' }, fault);
      expect(await run()).toMatchObject({ code: 0, counts: { applied: 1 } });
      expect(made(sandbox)).toBe(1);
    },
  );
});

describe('applied, and the balance contradicts', () => {
  test.each([
    ['a server that cuts balances off', 'remove,50,x', { negative_balance: 'clamped' }, '-10.00'],
    ['an update that another writer overwrote', 'add,5,x', { balance_update: 'lost' }, '0.00'],
    ['a set that left another balance', 'set,700,x', { balance_update: 'lost' }, '0.00'],
  ] as const)('%s is counted, named, and no success', async (_, row, behaviour, appliedNet) => {
    const { bulk, run, folder } = await oneRow(row, behaviour);
    const { code, batch, discrepancies, applied_net: net } = await run();
    expect([code, discrepancies, net]).toEqual([5, 1, appliedNet]);
    await bulk(['results', batch, '-o', 'out']);
    expect(readFileSync(join(folder, 'out', 'applied.csv'), 'utf8')).toMatch(/the balance was 10.00, should be/);
  });
});

describe('a row that counts as not applied', () => {
  test('turns out to be applied where it was made late, and was guarded meanwhile', async () => {
    const { bulk, run, sandbox, user, file } = await oneRow('add,5,Credit', {}, 'commit_late');
    const { code, batch, counts } = await run('--settle-after', '0s');
    expect([code, counts.rejected]).toEqual([5, 1]);
    const again = file(`${csv}${user},add,5,once more\n`, 'again.csv');
    expect((await bulk(['run', 'balance', again, '--yes'])).code).toBe(2);
    sandbox.control.commitLate();
    const resumed = await bulk(['resume', batch, '--json']);
    expect([resumed.code, resumed.report().counts]).toEqual([0, expect.objectContaining({ applied: 1, rejected: 0 })]);
    expect(made(sandbox)).toBe(1);
  });

  test('turns out to be applied by the transactions that the next sync brings, which says so', async () => {
    const { command, environment, bulk, run, sandbox } = await oneRow('add,5,Credit', {}, 'commit_late');
    const { batch } = await run('--settle-after', '0s');
    sandbox.control.commitLate();
    const including = { environment: { ...environment, ADMIN_MIRROR_RESOURCES_USERS_INCLUDE: 'balance_transactions' } };
    const { stderr } = await command(['sync'], including);
    expect(stderr).toMatch(new RegExp(`row 2 of batch ${batch} counted as not applied, but was made late`));
    expect((await bulk(['status', batch, '--json'])).report().counts.applied).toBe(1);
  });

  test('after a success that nobody could read goes on: no state is a dead end', { tags: 'full' }, async () => {
    const { bulk, run, sandbox, user } = await oneRow('add,5,Credit', {}, 'lost');
    // The look before the write is answered, those after it are not.
    const watch = setInterval(() => {
      if (sandbox.control.requests().recent.some(({ method }) => method === 'PUT')) {
        sandbox.control.faultNext({ fault: 'error_500', times: 50, match: { method: 'GET', path: `/users/${user}` } });
        clearInterval(watch);
      }
    }, 1);
    // Each look is tried once: as often as usual would only take longer.
    const { code, batch } = await run();
    expect(code).toBe(8);
    sandbox.control.clearFaults();
    const resumed = await bulk(['resume', batch, '--settle-after', '0s', '--json']);
    expect([resumed.code, resumed.report().counts.rejected]).toEqual([5, 1]);
  });
});

test('a row that was made twice stops its batch and all others, until somebody has decided about it', async () => {
  const world = await oneRow('add,5,Credit', {}, 'commit_twice');
  const { bulk, run, sandbox } = world;
  const first = await run();
  expect([first.code, first.stderr]).toEqual([8, expect.stringMatching(/was over-applied/)]);
  const { name } = creditFile(world, 1, '7', 'other.csv');
  for (const args of [
    ['resume', first.batch],
    ['run', 'balance', name, '--yes'],
  ]) {
    expect((await bulk(args)).code).toBe(8);
  }
  expect(made(sandbox)).toBe(2);
  await bulk(['resolve', first.batch, '--row', '2', '--applied', '--reason', 'took 5.00 back by hand']);
  expect((await bulk(['run', 'balance', name, '--yes'])).code).toBe(0);
});

describe('an id', () => {
  test('that was given to a stranger between plan and apply is not paid', async () => {
    const { sandbox, bulk, file } = await bulkWorld();
    const user = newUser(sandbox, 10);
    const { batch, hash } = (await bulk(['plan', 'balance', file(`${csv}${user},add,500,x\n`), '--json'])).report();
    sandbox.control.remove('users', user);
    sandbox.control.insert('users', { id: user, email: 'stranger@example.com', balance: 10 });
    const sent = await bulk(['apply', batch, '--approve', hash, '--json']);
    expect([sent.code, sent.report().counts.skipped, made(sandbox)]).toEqual([5, 1, 0]);
  });

  test('is found by an email in other letters than the server has', async () => {
    const { sandbox, bulk, file } = await bulkWorld();
    sandbox.control.update('users', newUser(sandbox, 10), { email: 'anna@example.com' });
    const { code } = await bulk(['run', 'balance', file('email,type,amount\nAnna@Example.COM,add,5\n'), '--yes']);
    expect([code, made(sandbox)]).toEqual([0, 1]);
  });

  test('of one of two users with the email of the row is not chosen, although the mirror knows one', async () => {
    const { sandbox, command, bulk, file } = await bulkWorld();
    sandbox.control.update('users', newUser(sandbox, 10), { email: 'both@example.com' });
    await command(['sync']);
    sandbox.control.update('users', newUser(sandbox, 10), { email: 'both@example.com' });
    const { code, stdout } = await bulk(['plan', 'balance', file('email,type,amount\nboth@example.com,add,5\n')]);
    expect([code, stdout]).toEqual([2, expect.stringMatching(/several users have the email/)]);
  });
});

describe('bounds', () => {
  test.each(
    sample(
      [
        ['ADMIN_MIRROR_BULK_MAX_ROW', '4.99', /bulk.max_row/],
        ['ADMIN_MIRROR_BULK_MAX_TOTAL', '9.99', /bulk.max_total/],
        ['ADMIN_MIRROR_BULK_MAX_DAY', '9.99', /bulk.max_day/],
        ['ADMIN_MIRROR_BULK_MAX_ROWS', '1', /bulk.max_rows/],
      ],
      2,
    ),
  )('hold when a plan is sent that was made before them: %s', async (name, value, words) => {
    const world = await bulkWorld();
    const { sandbox, bulk, environment } = world;
    const { batch, hash } = (await bulk(['plan', 'balance', creditFile(world, 2).name, '--json'])).report();
    const bounded = { environment: { ...environment, [name]: value } };
    const { code, stderr } = await bulk(['apply', batch, '--approve', hash], bounded);
    expect([code, stderr, made(sandbox)]).toEqual([2, expect.stringMatching(words), 0]);
  });

  test('of a day hold over all batches, and plan names them', async () => {
    const world = await bulkWorld();
    const { sandbox, bulk, environment } = world;
    const bounded = { environment: { ...environment, ADMIN_MIRROR_BULK_MAX_DAY: '15' } };
    expect((await bulk(['run', 'balance', creditFile(world, 2).name, '--yes'], bounded)).code).toBe(0);
    const more = creditFile(world, 2, '5', 'more.csv').name;
    const plan = await bulk(['plan', 'balance', more, '--json'], bounded);
    expect(plan.report().warnings).toEqual([
      'the rows move 10.00, and what else was sent within the last 24 hours moved 10.00: together more than bulk.max_day allows (15)',
    ]);
    expect((await bulk(['run', 'balance', more, '--yes'], bounded)).code).toBe(2);
    expect(made(sandbox)).toBe(2);
  });

  test('hold for a change by hand, alone and with all that was sent within a day, which counts for batches, too', async () => {
    const world = await bulkWorld();
    const { sandbox, bulk, command, environment } = world;
    const byHand = (type: string, amount: string, more: Readonly<Record<string, string>> = {}) =>
      command(['users', 'update-balance', String(newUser(sandbox, 1)), '--type', type, '--amount', amount, '--yes'], {
        environment: { ...environment, ...more },
      });
    for (const [type, amount] of [
      ['add', '1000.01'],
      ['remove', '1000.01'],
      ['set', '1000.01'],
    ] as const) {
      const { code, stderr } = await byHand(type, amount);
      expect([code, stderr]).toEqual([
        2,
        expect.stringMatching(/more than bulk.max_row allows \(1000\); nothing was sent/),
      ]);
    }
    const bounded = { ADMIN_MIRROR_BULK_MAX_DAY: '15' };
    expect((await byHand('add', '10', bounded)).code).toBe(0);
    expect(await byHand('remove', '5.01', bounded)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/what else was sent within the last 24 hours moved 10.00: .*bulk.max_day/),
    });
    const file = creditFile(world, 2).name;
    const run = await bulk(['run', 'balance', file, '--yes'], { environment: { ...environment, ...bounded } });
    expect([run.code, run.stderr]).toEqual([2, expect.stringMatching(/moved 10.00: .*bulk.max_day/)]);
    expect(made(sandbox)).toBe(1);
  });

  test('are there where nothing is set', async () => {
    const { bulk, file, sandbox } = await bulkWorld();
    const { code, stdout } = await bulk(['plan', 'balance', file(`${csv}${newUser(sandbox, 1)},add,1000.01,\n`)]);
    expect([code, stdout]).toEqual([2, expect.stringMatching(/more than bulk.max_row allows \(1000\)/)]);
  });
});

test('the undo of a batch is not refused because another one like it was undone', async () => {
  const world = await bulkWorld();
  const { bulk, sandbox } = world;
  const { name } = creditFile(world, 2);
  const batches: string[] = [];
  for (const reason of ['March', 'April']) {
    const sent = await bulk(['run', 'balance', name, '--yes', '--json', '--again', '--reason', reason]);
    batches.push(sent.report().batch);
  }
  for (const batch of batches) {
    const undo = (await bulk(['undo', batch, '--json'])).report();
    expect((await bulk(['apply', undo.batch, '--approve', undo.hash])).code).toBe(0);
  }
  expect((await bulk(['undo', batches[0] ?? ''])).code).toBe(2);
  expect(made(sandbox)).toBe(8);
});

describe('the disk', () => {
  test('that is full in mid-run ends with 8 or 5 and the report, and resume ends right', { tags: 'full' }, async () => {
    const world = await bulkWorld();
    const { sandbox, bulk, folder, environment } = world;
    const { name } = creditFile(world, 40);
    const { batch, hash } = (await bulk(['plan', 'balance', name, '--json'])).report();
    // No file of this process may grow beyond so many blocks: the journal's log does.
    const command = `ulimit -f 300; exec "$0" "$@"`;
    const args = ['-c', command, process.execPath, commandFile, 'bulk', 'apply', batch, '--approve', hash, '--json'];
    const { PATH = '', HOME = '' } = process.env;
    const child = spawn('bash', args, { cwd: folder, env: { PATH, HOME, ...environment } });
    child.stdin.end();
    const { code, stdout } = await finished(child);
    expect([5, 8]).toContain(code);
    expect((JSON.parse(stdout) as BatchReport).counts.planned).toBeGreaterThan(0);
    expect(made(sandbox)).toBeGreaterThan(0);
    const resumed = await bulk(['resume', batch, '--settle-after', '0s', '--json']);
    expect([resumed.code, resumed.report().counts.applied, made(sandbox)]).toEqual([0, 40, 40]);
  });

  test('that damaged the journal is said, with the way back, and no stack trace', async () => {
    const world = await bulkWorld();
    const { bulk, folder } = world;
    const { name } = creditFile(world, 30);
    await bulk(['run', 'balance', name, '--yes']);
    const journal = join(folder, 'data', 'journal.db');
    for (const end of ['-wal', '-shm']) rmSync(journal + end, { force: true });
    const bytes = readFileSync(journal);
    writeFileSync(journal, bytes.fill(0x5a, 8_192));
    for (const args of [['status'], ['plan', 'balance', name], ['results', 'last']]) {
      const { code, stderr } = await bulk(args);
      expect([code, stderr]).toEqual([2, expect.stringMatching(/the journal .* is damaged[^]*Put back the last copy/)]);
      expect(stderr).not.toMatch(/\n\s+at /);
    }
  });
});
