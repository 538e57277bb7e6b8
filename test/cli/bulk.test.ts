import { execFileSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { BatchReport } from '../../src/bulk/report.ts';
import type { Behaviour } from '../support/bent/sandbox.ts';
import { newUser } from '../support/bulk.ts';
import { bulkWorld, csv, made, whenMade } from '../support/bulk-cli.ts';
import { finished, startCli } from '../support/cli.ts';
import { invoke } from '../support/invoke.ts';
import { startSandbox } from '../support/sandbox.ts';

describe('bulk plan', () => {
  test('prints each row before and after, the totals and the next command, and sends nothing', async () => {
    const { sandbox, bulk, file } = await bulkWorld();
    const [a, b] = [newUser(sandbox, 10), newUser(sandbox, 20)];
    const { code, stdout, stderr } = await bulk(['plan', 'balance', file(`${csv}${a},add,2.50,x\n${b},remove,30,y\n`)]);
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^ +2 +${a} +\\S+ +\\S+ +add 2.50 x +10.00 +12.50 +planned`, 'm'));
    expect(stdout).toMatch(/net +-27.50, gross 32.50, 2 users\n +add +1 row, 2.50\n +remove +1 row, 30.00\n/);
    expect(stdout).toMatch(/warning +row 3: the balance of user \d+ would be -10.00/);
    expect(stderr).toMatch(/Nothing was sent. To send it: npx admin-mirror .*bulk apply /);
    expect(made(sandbox)).toBe(0);
  });

  test('--json has every field, and ends with 2 if a row is invalid', async () => {
    const { sandbox, bulk, file } = await bulkWorld();
    const rows = `${newUser(sandbox, 10)},add,2.50,x\n77777,add,1,\n`;
    const { code, report } = await bulk(['plan', 'balance', file(csv + rows), '--json']);
    expect(code).toBe(2);
    expect(report()).toEqual({
      batch: expect.stringMatching(/^\d{8}-\d{6}-[a-z2-9]{4}$/) as string,
      title: 'credit',
      action: 'balance',
      file: 'credit.csv',
      hash: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
      state: 'planned',
      discarded: false,
      rows: 2,
      counts: { planned: 1, applied: 0, rejected: 0, unknown: 0, blocked: 0, skipped: 0, invalid: 1 },
      net: '2.50',
      types: [{ type: 'add', rows: 1, amount: '2.50' }],
      holding: [],
      gross: '2.50',
      users: 1,
      applied_net: '0.00',
      applied_gross: '0.00',
      applied_users: 0,
      undo_of: null,
      reversals: [],
      discrepancies: 0,
      approval: null,
      problems: [{ row: 3, column: 'user_id', problem: 'there is no user 77777' }],
      warnings: expect.any(Array) as string[],
      look_at: expect.any(Array) as number[],
      plan: expect.any(Array) as unknown[],
    });
  });

  test.each([
    [['plan', 'ballance', 'credit.csv'], /no action "ballance"\nDid you mean "balance"/],
    [['plan', 'balance', 'missing.csv'], /could not read .*missing.csv: it does not exist/],
    [['plan', 'balance', 'credit.csv', '--again'], /--again needs a reason/],
    [['apply', 'nothing'], /there is no batch nothing/],
    [['status', 'nothing'], /there is no batch nothing/],
    [['resolve', 'nothing', '--row', '2', '--reason', 'x'], /say what happened/],
  ])('%j ends with 2 and says why', async (args, problem) => {
    const { bulk, file } = await bulkWorld();
    file(`${csv}1,add,1,\n`);
    const { code, stderr } = await bulk(args);
    expect(code).toBe(2);
    expect(stderr).toMatch(problem);
  });
});

describe('bulk apply', () => {
  async function plannedBatch(behaviour: Partial<Behaviour> = {}) {
    const { sandbox, bulk, file, ...rest } = await bulkWorld(behaviour);
    const users = [newUser(sandbox, 10), newUser(sandbox, 20)];
    const { report } = await bulk([
      'plan',
      'balance',
      file(`${csv}${users[0]},add,2.50,x\n${users[1]},add,3,y\n`),
      '--json',
    ]);
    return { sandbox, bulk, write: file, ...report(), users, ...rest };
  }

  test('needs the hash of the plan if there is no terminal', async () => {
    const { sandbox, bulk, batch, hash } = await plannedBatch();
    const without = await bulk(['apply', batch]);
    expect(without.code).toBe(2);
    expect(without.stderr).toContain(`bulk apply ${batch} --approve ${hash}`);
    const wrong = await bulk(['apply', batch, '--approve', 'f'.repeat(64)]);
    expect(wrong.code).toBe(2);
    expect(made(sandbox)).toBe(0);
    const right = await bulk(['apply', batch, '--approve', hash, '--json']);
    expect(right.code).toBe(0);
    expect(right.report()).toMatchObject({ batch, state: 'done', counts: { applied: 2, planned: 0 } });
    expect(made(sandbox)).toBe(2);
    expect((await bulk(['apply', batch, '--approve', hash])).code).toBe(2);
    expect(made(sandbox)).toBe(2);
  });

  test('sends without a question with --yes, which leaves no room for a hash', async () => {
    const { sandbox, bulk, batch, hash } = await plannedBatch();
    expect((await bulk(['apply', batch, '--yes', '--approve', hash])).code).toBe(2);
    expect(made(sandbox)).toBe(0);
    expect((await bulk(['apply', batch, '--yes'])).code).toBe(0);
    expect(made(sandbox)).toBe(2);
  });

  test('asks on a terminal for the net total, and accepts nothing else', async () => {
    const { sandbox, bulk, batch } = await plannedBatch();
    const no = await bulk(['apply', batch], { terminal: 100, input: '5\r' });
    expect(no.code).toBe(2);
    expect(made(sandbox)).toBe(0);
    const alike = await bulk(['apply', batch], { terminal: 100, input: '55.0\r' });
    expect(alike.code).toBe(2);
    expect(made(sandbox)).toBe(0);
    const yes = await bulk(['apply', batch], { terminal: 100, input: '5.5\r' });
    expect(yes.code).toBe(0);
    expect(yes.stderr).toMatch(/send 2 rows with a net total of 5.50/);
    expect(made(sandbox)).toBe(2);
  });

  // proves: as-approved
  test("refuses a changed file, another server and another user's key", async () => {
    const { sandbox, bulk, batch, hash, write, environment, folder } = await plannedBatch();
    const other = await startSandbox({ users: 5, emails: 5 });
    const approve = ['apply', batch, '--approve', hash];
    write(`${csv}1,add,1000000,\n`);
    expect((await bulk(approve)).stderr).toMatch(/credit.csv has changed since the batch was planned/);
    rmSync(join(folder, 'credit.csv'));
    execFileSync('mkfifo', [join(folder, 'credit.csv')]);
    expect((await bulk(approve)).stderr).toMatch(/credit.csv: it is a pipe, not a file/);
    rmSync(join(folder, 'credit.csv'));
    write('');
    const elsewhere = { ...environment, ADMIN_MIRROR_BASE_URL: other.url, ADMIN_MIRROR_API_KEY: other.key };
    const { batch: second, hash: secondHash } = (
      await bulk(['plan', 'balance', write(`${csv}3,add,1,\n`, 'b.csv'), '--json'])
    ).report();
    expect((await bulk(['apply', second, '--approve', secondHash], { environment: elsewhere })).stderr).toMatch(
      /was planned for http/,
    );
    sandbox.control.insert('users', { id: 0 });
    sandbox.control.remove('users', 1);
    expect((await bulk(['apply', second, '--approve', secondHash])).stderr).toMatch(
      /planned with the key of another user/,
    );
    expect([made(sandbox), made(other)]).toEqual([0, 0]);
  });

  test('refuses a second plan of a file that was sent', async () => {
    const { sandbox, bulk, batch, hash } = await plannedBatch();
    const second = (await bulk(['plan', 'balance', 'credit.csv', '--json'])).report();
    await bulk(['apply', batch, '--approve', hash]);
    const again = await bulk(['apply', second.batch, '--approve', second.hash]);
    expect([again.code, again.stderr]).toEqual([2, expect.stringMatching(/this file was sent before/)]);
    expect(made(sandbox)).toBe(2);
    const meant = await bulk(['apply', second.batch, '--approve', second.hash, '--again', '--reason', 'twice a month']);
    expect(meant.code).toBe(0);
    expect(made(sandbox)).toBe(4);
  });

  // proves: unknown-is-8
  test('ends with 8 like status and results while an outcome is unknown, until resume settles it', async () => {
    const { sandbox, bulk, users, batch, hash, folder } = await plannedBatch({ late_commit_ms: 60_000 });
    sandbox.control.faultNext({ fault: 'commit_late', match: { method: 'PUT', path: `/users/${users[1]}/` } });
    const sent = await bulk(['apply', batch, '--approve', hash, '--json']);
    expect([sent.code, sent.report().counts.unknown, sent.report().state]).toEqual([8, 1, 'stopped']);
    expect((await bulk(['status', batch, '--json'])).code).toBe(8);
    expect((await bulk(['results', batch, '-o', 'out'])).code).toBe(8);
    expect(readdirSync(join(folder, 'out')).sort()).toEqual([
      'applied.csv',
      'manifest.json',
      'rejected.csv',
      'unknown.csv',
      'unprocessed.csv',
    ]);
    expect((await bulk(['status'])).stdout).toMatch(/1 applied, 1 unknown/);
    expect((await bulk(['status', '--json'])).stdout).toMatch(/^\{\n {2}"batches": \[/);
    sandbox.control.commitLate();
    expect((await bulk(['resume', batch, '--json'])).report()).toMatchObject({ state: 'done', counts: { applied: 2 } });
    expect((await bulk(['status', batch])).code).toBe(0);
  });

  test('ends with 5 if a row was refused or, with --settle-after 0s, is proven not applied', async () => {
    const { sandbox, bulk, users, batch, hash } = await plannedBatch();
    sandbox.control.faultNext({ fault: 'error_500', match: { method: 'PUT', path: `/users/${users[1]}/` } });
    const { code, report } = await bulk(['apply', batch, '--approve', hash, '--settle-after', '0s', '--json']);
    expect([code, report().counts]).toEqual([
      5,
      { planned: 0, applied: 1, rejected: 1, unknown: 0, blocked: 0, skipped: 0, invalid: 0 },
    ]);
    const resolved = await bulk([
      'resolve',
      batch,
      '--row',
      '3',
      '--not-applied',
      '--resend',
      '--reason',
      'looked',
      '--json',
    ]);
    expect([resolved.code, resolved.report().counts.planned]).toEqual([0, 1]);
    expect((await bulk(['resume', batch])).code).toBe(0);
  });

  test('ends with 3 if the key may not change balances, and `status` says that its rows wait', async () => {
    const { bulk, batch, hash, command } = await plannedBatch({ forbidden: 'users.update-balance' });
    const waiting = async () => (await command(['status', '--check'])).stdout;
    await command(['sync', '--quiet']);
    expect(await waiting()).not.toContain(batch);
    const { code, report } = await bulk(['apply', batch, '--approve', hash, '--json']);
    expect([code, report().state, report().counts.planned]).toEqual([3, 'stopped', 1]);
    expect(await waiting()).toContain(`batch ${batch} was stopped: 1 row was sent, and 1 was not`);
    expect((await bulk(['discard', batch, '--reason', 'x'])).code).toBe(0);
    expect(await waiting()).not.toContain(batch);
  });
});

describe('bulk discard', () => {
  test('ends a plan for good, and frees the batch that it would have undone', async () => {
    const { sandbox, bulk, file } = await bulkWorld();
    const user = newUser(sandbox, 10);
    const sent = (await bulk(['run', 'balance', file(`${csv}${user},add,2.50,x\n`), '--yes', '--json'])).report();
    const undo = (await bulk(['undo', sent.batch, '--json'])).report();
    expect((await bulk(['undo', sent.batch])).code).toBe(2);
    expect((await bulk(['discard', undo.batch, '--reason', ' '])).code).toBe(2);
    const { code, report } = await bulk(['discard', undo.batch, '--reason', 'it was right', '--json']);
    expect([code, report().state, report().discarded, report().counts.skipped]).toEqual([0, 'done', true, 1]);
    expect((await bulk(['status', undo.batch])).stdout).toMatch(/^state {5}discarded$/m);
    expect((await bulk(['status'])).stdout).toMatch(
      new RegExp(`^${undo.batch} {2}discarded .*\\n${sent.batch} {2}done `),
    );
    const apply = await bulk(['apply', undo.batch, '--approve', undo.hash]);
    expect([apply.code, apply.stderr]).toEqual([2, expect.stringContaining('was discarded; nothing was sent')]);
    const twice = await bulk(['discard', undo.batch, '--reason', 'x']);
    expect([twice.code, twice.stderr]).toEqual([2, expect.stringContaining('no row that is still to be sent')]);
    expect((await bulk(['undo', sent.batch])).code).toBe(0);
    expect(made(sandbox)).toBe(1);
  });
});

describe('bulk run', () => {
  test('sends if every row is valid; undo and apply reverse it', async () => {
    const { sandbox, bulk, file } = await bulkWorld();
    const user = newUser(sandbox, 10);
    const run = await bulk(['run', 'balance', file(`${csv}${user},add,2.50,x\n`), '--yes', '--json']);
    expect([run.code, run.report().counts.applied]).toEqual([0, 1]);
    const undo = await bulk(['undo', run.report().batch, '--json']);
    expect(undo.report()).toMatchObject({ file: null, net: '-2.50', state: 'planned' });
    expect((await bulk(['apply', undo.report().batch, '--approve', undo.report().hash])).code).toBe(0);
    expect(sandbox.control.get('users', user)?.['balance']).toBe(10);
  });

  test('sends nothing if a row is invalid', async () => {
    const { sandbox, bulk, file } = await bulkWorld();
    const run = await bulk([
      'run',
      'balance',
      file(`${csv}${newUser(sandbox, 10)},add,2.50,x\n1,add,1.005,\n`),
      '--yes',
      '--json',
    ]);
    expect([run.code, run.report().counts.invalid]).toEqual([2, 1]);
    expect(made(sandbox)).toBe(0);
  });
});

describe('a bulk run stopped by Ctrl-C', () => {
  async function running(behaviour: Partial<Behaviour>) {
    const { sandbox, bulk, file, folder, environment } = await bulkWorld(behaviour);
    const rows = Array.from({ length: 30 }, () => `${newUser(sandbox, 10)},add,1,x`).join('\n');
    const name = file(`${csv}${rows}\n`);
    const child = startCli(['bulk', 'run', 'balance', name, '--yes', '--json'], { folder, environment });
    return { sandbox, bulk, child, ended: finished(child) };
  }

  test('finishes requests that are under way, prints its report, and ends with 130', { tags: 'full' }, async () => {
    const { sandbox, bulk, child, ended } = await running({ latency: 10 });
    await whenMade(sandbox, 3, child);
    child.kill('SIGINT');
    const { code, stdout, stderr } = await ended;
    const report = JSON.parse(stdout) as BatchReport;
    expect(stderr).toMatch(new RegExp(`To continue: npx admin-mirror .*bulk resume ${report.batch}\\n`));
    expect([code, report.state, report.counts.unknown]).toEqual([130, 'stopped', 0]);
    expect(report.counts.applied).toBe(made(sandbox));
    expect((await bulk(['resume', report.batch, '--json'])).report().counts.applied).toBe(30);
    expect(made(sandbox)).toBe(30);
  });
});

describe('a write by hand', () => {
  test('is recorded, and its unknown outcome is reported before the same is sent again', async () => {
    const { sandbox, folder, environment } = await bulkWorld();
    const user = newUser(sandbox, 10);
    const command = ['users', 'update-balance', String(user), '--type', 'add', '--amount', '1', '--yes'];
    sandbox.control.faultNext({ fault: 'commit_500', match: { method: 'PUT' } });
    expect((await invoke(command, { folder, environment })).code).toBe(8);
    const again = await invoke(command, { folder, environment });
    expect([again.code, again.stderr]).toEqual([
      0,
      expect.stringMatching(/warning: the same was sent at .*its outcome is not known/),
    ]);
  });
});
