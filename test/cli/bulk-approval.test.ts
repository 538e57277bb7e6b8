/** Approvals on the command line, as a maker, an approver and an admin use them. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { hashPassword } from '../../src/people/sign-in.ts';
import { bulkWorld, type BulkWorld, creditFile, made } from '../support/bulk-cli.ts';
import { newAccount, newPeople, quickCost } from '../support/people.ts';

const password = 'tulip-Anchor 9 rivers';

/** A world with a policy, and an approver account for each name. None of them belongs to an operating system user. */
async function worldUnder(policy: string, approvers: readonly string[] = ['bert'], emails = 5): Promise<BulkWorld> {
  const world = await bulkWorld({}, emails);
  writeFileSync(join(world.folder, 'policy.yaml'), `bulk:\n  approval:\n${policy}`);
  Object.assign(world.environment, { ADMIN_MIRROR_CONFIG: join(world.folder, 'policy.yaml') });
  const { people } = await newPeople(undefined, join(world.folder, 'data/journal.db'));
  for (const name of approvers) {
    const hash = await hashPassword(password, quickCost);
    await people.add(newAccount(name, { roles: ['approver'], osUsers: [], password: hash }));
  }
  return world;
}

const always = '    balance: {}\n';

async function planned({ bulk }: BulkWorld, name: string): Promise<string> {
  const { report, stderr } = await bulk(['plan', 'balance', name, '--json']);
  expect(stderr).not.toContain('error');
  return report().batch;
}

const approve = ({ bulk }: BulkWorld, batch: string, as = 'bert', ...more: string[]) =>
  bulk(['approve', batch, '--as', as, ...more], { input: `${password}\n` });

describe('a batch under a policy', () => {
  test('is planned, submitted, approved by another person, and sent', async () => {
    const world = await worldUnder(always);
    const { bulk, sandbox } = world;
    const batch = await planned(world, creditFile(world, 2).name);
    const hash = (await bulk(['status', batch, '--json'])).report().hash;
    const early = await bulk(['apply', batch, '--approve', hash]);
    expect([early.code, made(sandbox)]).toEqual([2, 0]);
    expect(early.stderr).toMatch(/must be approved by another person: it always needs approval/);
    expect(early.stderr).toContain(`admin-mirror bulk submit ${batch}`);
    const unasked = await approve(world, batch);
    expect([unasked.code, unasked.stderr]).toEqual([2, expect.stringContaining('was not submitted')]);

    const submitted = await bulk(['submit', batch, '--note', 'the outage of Monday']);
    expect(submitted.stdout).toMatch(/^approval {2}waits for 1 of 1 \(bert can approve\), good until /m);
    expect(submitted.stdout).toContain(': the outage of Monday');
    const waiting = await bulk(['apply', batch, '--approve', hash]);
    expect([waiting.code, waiting.stderr]).toEqual([
      2,
      expect.stringMatching(/waits for 1 approval \(bert can approve\)/),
    ]);
    expect((await bulk(['status'])).stdout).toMatch(/^\S+ +waits for approval +credit /);

    const approved = await approve(world, batch);
    expect(approved.code).toBe(0);
    expect(approved.stdout).toMatch(/approved by account bert \(.*\) on /);
    expect(approved.stderr).toContain(`admin-mirror bulk apply ${batch}`);
    const sent = await bulk(['apply', batch, '--approve', hash]);
    expect([sent.code, made(sandbox)]).toEqual([0, 2]);
    const { stdout: words } = await bulk(['status', batch]);
    expect(words).toMatch(/^approved {2}by account bert .*\nconfirmed by \w+@/m);
    expect((await bulk(['receipt', batch, '-o', 'r.html'])).code).toBe(0);
    expect(readFileSync(join(world.folder, 'r.html'), 'utf8')).toMatch(/>Approved by<[^]*?<td>account bert \(/);
    const status = JSON.parse((await bulk(['status', batch, '--json'])).stdout) as Record<string, unknown>;
    expect(status).toMatchObject({
      approval: { state: 'approved', needed: 1, missing: 0, approvals: [{ by: { account: 'bert' }, problem: null }] },
      approved_by: [{ account: 'bert' }],
      submitted_by: [{ account: null }],
    });
  });

  test('is submitted by run, which says who can approve it and sends it once it is approved', async () => {
    const world = await worldUnder(always);
    const { name } = creditFile(world, 2);
    const first = await world.bulk(['run', 'balance', name, '--yes', '--json']);
    expect([first.code, made(world.sandbox)]).toEqual([2, 0]);
    expect(first.stderr).toMatch(/waits for 1 approval \(bert can approve\)/);
    const { batch, approval } = first.report();
    expect(approval).toMatchObject({ state: 'waiting', missing: 1 });
    await approve(world, batch);
    // Planning the same file again keeps the approval.
    const second = await world.bulk(['run', 'balance', name, '--yes', '--json']);
    expect([second.code, made(world.sandbox)]).toEqual([0, 2]);
    // The approval is used up: the first batch no longer has one.
    const late = await world.bulk(['apply', batch, '--approve', first.report().hash, '--again', '--reason', 'x']);
    expect([late.code, made(world.sandbox)]).toEqual([2, 2]);
  });

  test.each([
    ['a wrong password', 'bert', 'not the password', 'the name or the password is wrong'],
    ['a name that nobody has', 'zoe', password, 'the name or the password is wrong'],
  ])('is not approved with %s', async (_, as, given, words) => {
    const world = await worldUnder(always);
    const batch = (await world.bulk(['run', 'balance', creditFile(world, 1).name, '--yes', '--json'])).report().batch;
    const { code, stderr } = await world.bulk(['approve', batch, '--as', as], { input: `${given}\n` });
    expect([code, stderr]).toEqual([2, expect.stringContaining(words)]);
    expect((await world.bulk(['status', batch, '--json'])).report().approval?.approvals).toEqual([]);
  });
});

describe('a write by hand', () => {
  test('is refused before any question if the policy requires approval, and the error says what to run instead', async () => {
    const world = await worldUnder('    balance: { row_amount: 10 }\n');
    const [user = 0] = creditFile(world, 1).users;
    const change = (...words: string[]) => world.command(['users', 'update-balance', String(user), ...words, '--yes']);
    const refused = await change('--type', 'add', '--amount', '10.01');
    expect([refused.code, made(world.sandbox)]).toEqual([2, 0]);
    expect(refused.stderr).toMatch(/approved by another person: one row changes a balance by 10.01, more than 10/);
    expect(refused.stderr).toContain('admin-mirror bulk run balance FILE');
    expect((await change('--type', 'set', '--amount', '20.01')).code).toBe(2);
    expect((await change('--type', 'remove', '--amount', '10')).code).toBe(0);
    expect(made(world.sandbox)).toBe(1);
  });
});

describe('the amount that one person sends alone in a day', () => {
  test(
    'is summed over batches and writes by hand, without what another person approved',
    { tags: 'full' },
    async () => {
      const world = await worldUnder('    balance: { alone_per_day: 20 }\n');
      const run = (count: number, amount: string) =>
        world.bulk([
          'run',
          'balance',
          creditFile(world, count, amount, `c${count}-${amount}.csv`).name,
          '--yes',
          '--json',
        ]);
      expect((await run(2, '5')).code).toBe(0);
      const [user = 0] = creditFile(world, 1).users;
      const byHand = (amount: string) =>
        world.command(['users', 'update-balance', String(user), '--type', 'add', '--amount', amount, '--yes']);
      expect((await byHand('6')).code).toBe(0);
      expect((await byHand('4.01')).code).toBe(2);
      const third = await run(3, '2');
      expect([third.code, third.stderr]).toEqual([
        2,
        expect.stringContaining('one person would have sent 22 in all alone'),
      ]);
      await approve(world, third.report().batch);
      const sent = await world.bulk(['apply', third.report().batch, '--approve', third.report().hash]);
      expect(sent.code).toBe(0);
      expect((await byHand('4')).code).toBe(0);
      expect(made(world.sandbox)).toBe(2 + 1 + 3 + 1);
    },
  );
});
