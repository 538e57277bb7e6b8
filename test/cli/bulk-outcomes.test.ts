/** Outcomes if the server, the disk or another user misbehaves, and how they are reported. */
import { spawn } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import type { BatchReport } from '../../src/bulk/report.ts';
import type { Behaviour, Fault } from '../support/bent/sandbox.ts';
import { behindProxy } from '../support/altering-proxy.ts';
import { newUser } from '../support/bulk.ts';
import { bulkWorld, creditFile, csv, made } from '../support/bulk-cli.ts';
import { finished } from '../support/cli.ts';
import { commandFile } from '../support/command-file.ts';
import { sample } from '../support/part.ts';

/** One row for a user with a balance of 10. The server fails its request with the given fault. */
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

describe('a row whose server asks to come back later', () => {
  test('stays planned if that is too late, and the command says how to continue', async () => {
    const { run, sandbox } = await oneRow('add,5,Credit', { retry_after_seconds: 3_600 }, 'too_many');
    const { code, batch, stderr } = await run();
    expect([code, made(sandbox)]).toEqual([4, 0]);
    expect(stderr).toMatch(new RegExp(`To continue: .*bulk resume ${batch}`));
  });
});

describe('a row that counts as not applied', () => {
  test('becomes applied if the next sync brings its transaction, and the sync says so', async () => {
    const { command, environment, bulk, run, sandbox } = await oneRow('add,5,Credit', {}, 'commit_late');
    const { batch } = await run('--settle-after', '0s');
    sandbox.control.commitLate();
    const including = { environment: { ...environment, ADMIN_MIRROR_RESOURCES: 'users.balance_transactions' } };
    const { stderr } = await command(['sync'], including);
    expect(stderr).toMatch(new RegExp(`row 2 of batch ${batch} counted as not applied, but was made late`));
    expect((await bulk(['status', batch, '--json'])).report().counts.applied).toBe(1);
  });

  test('holds back the later row of its user, and run and status say what to do', async () => {
    const { sandbox, bulk, file } = await bulkWorld();
    const [a, b] = [newUser(sandbox, 10), newUser(sandbox, 10)];
    const name = file(`${csv}${a},add,1,x\n${b},add,2,y\n${b},add,3,z\n`);
    sandbox.control.faultNext({ fault: 'reset_before', match: { method: 'PUT', path: `/users/${b}/` } });
    const done = await bulk(['run', 'balance', name, '--yes', '--settle-after', '0s', '--json']);
    const { batch } = done.report();
    const again = `bulk resolve ${batch} --row 3 --not-applied --resend`;
    expect([done.code, done.report().counts.blocked]).toEqual([5, 1]);
    expect(done.stderr).toContain(again);
    const { stdout } = await bulk(['status', batch]);
    expect(stdout).toMatch(new RegExp(`not made   row 3, user ${b}: .*; 1 later row waits for it`));
    expect(stdout).toContain(again);
    expect((await bulk(['resolve', batch, '--row', '3', '--not-applied', '--reason', 'not owed'])).code).toBe(0);
    expect((await bulk(['resume', batch, '--json'])).report().counts).toMatchObject({ applied: 2, rejected: 1 });
  });
});

// proves: same-person
test('a user with an id that went to somebody else between plan and apply is not paid', async () => {
  const { sandbox, bulk, file } = await bulkWorld();
  const user = newUser(sandbox, 10);
  const { batch, hash } = (await bulk(['plan', 'balance', file(`${csv}${user},add,500,x\n`), '--json'])).report();
  sandbox.control.remove('users', user);
  sandbox.control.insert('users', { id: user, email: 'stranger@example.com', balance: 10 });
  const sent = await bulk(['apply', batch, '--approve', hash, '--json']);
  expect([sent.code, sent.report().counts.skipped, made(sandbox)]).toEqual([5, 1, 0]);
});

describe('limits', () => {
  // proves: bounds
  test('per day cover all batches, and plan warns of them', async () => {
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

  test('apply to writes by hand, both per row and per day, and these count towards the limit for batches', async () => {
    const world = await bulkWorld();
    const { sandbox, bulk, command, environment } = world;
    const byHand = (type: string, amount: string, more: Readonly<Record<string, string>> = {}) =>
      command(['users', 'update-balance', String(newUser(sandbox, 1)), '--type', type, '--amount', amount, '--yes'], {
        environment: { ...environment, ...more },
      });
    for (const [type, amount] of [
      ['add', '1000.01'],
      ['remove', '1000.01'],
      ['set', '1001.01'],
    ] as const) {
      const { code, stderr } = await byHand(type, amount);
      expect([code, stderr]).toEqual([
        2,
        expect.stringMatching(/more than bulk.max_row allows \(1,000\); nothing was sent/),
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

  test('hold for a balance that is set by hand, by the change from what it was', async () => {
    const { sandbox, command, environment } = await bulkWorld();
    const user = newUser(sandbox, -3_595);
    const set = (amount: string, bound: string) =>
      command(['users', 'update-balance', String(user), '--type', 'set', '--amount', amount, '--yes'], {
        environment: { ...environment, ADMIN_MIRROR_BULK_MAX_ROW: 'off', [`ADMIN_MIRROR_BULK_MAX_${bound}`]: '10' },
      });
    for (const bound of ['ROW', 'DAY', 'TOTAL']) {
      const { code, stderr } = await set('5', bound);
      expect([code, stderr]).toEqual([2, expect.stringMatching(`bulk.max_${bound.toLowerCase()} allows`)]);
    }
    expect(await set('-3590', 'DAY')).toMatchObject({ code: 0 });
    expect(await set('-3584', 'DAY')).toMatchObject({ code: 2, stderr: expect.stringMatching(/moved 5.00/) });
    expect(made(sandbox)).toBe(1);
  });

  test.each(sample([401, 403, 404], 1))(
    'count a write by hand that was made but answered %i, even unread',
    async (status) => {
      const { sandbox, command, bulk, file, environment } = await bulkWorld();
      let isCut = false;
      const proxy = await behindProxy(sandbox, ({ method }) => {
        if (isCut && method === 'GET') throw new Error('cut');
        if (method !== 'PUT') return {};
        isCut = true;
        return { status, body: '{"success":false,"message":"no"}' };
      });
      const here = {
        environment: { ...environment, ADMIN_MIRROR_BASE_URL: proxy.url, ADMIN_MIRROR_BULK_MAX_DAY: '15' },
        constants: { api: { attempts: 2 } },
      };
      const user = newUser(sandbox, 10);
      const add = (amount: string) => `users update-balance ${user} --type add --amount ${amount} --yes`.split(' ');
      expect((await command(add('10'), here)).code).not.toBe(0);
      isCut = false;
      expect(await command(add('6'), here)).toMatchObject({ code: 2, stderr: expect.stringMatching(/moved 10.00/) });
      const name = file(`${csv}${user},add,10,x\n`, 'hand.csv');
      const planned = await bulk(['plan', 'balance', name]);
      expect(planned).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/was refused \(not verified\).*by hand/),
      });
      expect(made(sandbox)).toBe(1);
    },
  );

  test.each([
    [403, true, 8, 2],
    [403, false, 3, 0],
    [404, false, 2, 0],
  ])('read the user after a write by hand that was answered %i (made: %s)', async (status, isMade, code, again) => {
    const { sandbox, command, environment } = await bulkWorld();
    const proxy = await behindProxy(
      sandbox,
      ({ method }) => (method === 'PUT' ? { status, body: '{"success":false,"message":"no"}' } : {}),
      (path) => (!isMade && path.endsWith('/update-balance') ? '/api/v1/users/999999/update-balance' : path),
    );
    const user = newUser(sandbox, 10);
    const add = ['users', 'update-balance', String(user), '--type', 'add', '--amount', '10', '--yes'];
    const bounded = { ...environment, ADMIN_MIRROR_BULK_MAX_DAY: '15' };
    const refused = await command(add, { environment: { ...bounded, ADMIN_MIRROR_BASE_URL: proxy.url } });
    expect(refused.code).toBe(code);
    expect((await command(add, { environment: bounded })).code).toBe(again);
    expect(made(sandbox)).toBe(1);
  });
});

test('the undo of a batch is not refused because an identical batch was undone', async () => {
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

describe('a disk', () => {
  test(
    'that fills up during a run ends it with 8 or 5 and a report, and resume completes it',
    { tags: 'full' },
    async () => {
      const world = await bulkWorld();
      const { sandbox, bulk, folder, environment } = world;
      const { name } = creditFile(world, 40);
      const { batch, hash } = (await bulk(['plan', 'balance', name, '--json'])).report();
      // The journal's WAL outgrows this file size limit.
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
    },
  );
});
