/** How the money of a batch is shown: what was applied, what was planned, and the total that a person types. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { BatchReport } from '../../src/bulk/report.ts';
import type { Manifest } from '../../src/bulk/results.ts';
import type { Behaviour, Sandbox } from '../support/bent/sandbox.ts';
import { newUser } from '../support/bulk.ts';
import { enter } from '../support/dialogue.ts';
import { invoke, type Invocation } from '../support/invoke.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

async function world(behaviour: Partial<Behaviour> = {}) {
  const sandbox = await startSandbox({ users: 5, emails: 5, behaviour });
  const folder = temporaryFolder();
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  const bulk = (args: readonly string[], more: Invocation = {}) =>
    invoke(['bulk', ...args], { folder, environment, ...more });
  const plan = async (rows: readonly (readonly (string | number)[])[]): Promise<BatchReport> => {
    const lines = rows.map((cells) => `${cells.join(',')}\n`).join('');
    writeFileSync(join(folder, 'credit.csv'), `user_id,type,amount\n${lines}`);
    return JSON.parse((await bulk(['plan', 'balance', 'credit.csv', '--json'])).stdout) as BatchReport;
  };
  return { sandbox, folder, bulk, plan };
}

const made = ({ control }: Sandbox): number => control.ledger().length;

describe('The applied amount', () => {
  test('is shown before the planned amount wherever a sent batch is reported', async () => {
    const { sandbox, bulk, plan, folder } = await world({ negative_balance: 'refused' });
    const [a, b] = [newUser(sandbox, 10), newUser(sandbox, 20)];
    const { batch, hash } = await plan([
      [a, 'add', '2.50'],
      [b, 'remove', '500'],
    ]);
    const planned = (await bulk(['status', batch])).stdout;
    expect(planned).toMatch(/^net {7}-497.50, gross 502.50, 2 users$/m);
    expect(planned).not.toContain('applied ');
    expect((await bulk(['status'])).stdout).toMatch(/planned +credit +balance +net -497.50 /);

    const lines = /^state .*\napplied {3}net 2.50, 1 user\nplanned {3}net -497.50, gross 502.50, 2 users\n/m;
    const sent = await bulk(['apply', batch, '--approve', hash]);
    expect([sent.code, sent.stdout]).toEqual([5, expect.stringMatching(lines)]);
    expect((await bulk(['status', batch])).stdout).toMatch(lines);
    expect((await bulk(['status'])).stdout).toMatch(
      /done, not all +credit +balance +applied net 2.50 \(planned -497.50\) /,
    );
    const results = await bulk(['results', batch, '-o', 'out']);
    expect(results.stdout).toMatch(/^applied {3}net 2.50, 1 user\nplanned {3}net -497.50, gross 502.50, 2 users\n/);
    expect(JSON.parse(readFileSync(join(folder, 'out/manifest.json'), 'utf8')) as Manifest).toMatchObject({
      net: '-497.50',
      applied_net: '2.50',
      applied_gross: '2.50',
      applied_users: 1,
      discrepancies: 0,
    });
  });

  test('is reported with row and advice if the balance contradicts it', async () => {
    const { sandbox, bulk, plan } = await world({ late_commit_ms: 60_000 });
    const user = newUser(sandbox, 10);
    const { batch, hash } = await plan([[user, 'add', '2.50']]);
    sandbox.control.faultNext({ fault: 'commit_late', match: { method: 'PUT' } });
    expect((await bulk(['apply', batch, '--approve', hash])).code).toBe(8);
    sandbox.control.commitLate();
    // Somebody else overwrites the balance. The transaction stays.
    sandbox.control.update('users', user, { balance: 7 });
    const resumed = await bulk(['resume', batch]);
    expect(resumed.code).toBe(5);
    expect(resumed.stdout).toMatch(/^applied {3}net -3.00, 1 user\nplanned {3}net 2.50, 1 user$/m);
    expect(resumed.stdout).toMatch(
      /^differs {3}1 row made twice, or contradicted by the balance: look at .* before you send/m,
    );
    const status = (await bulk(['status', batch])).stdout;
    expect(status).toMatch(/^differs {3}1 row made twice, or contradicted by the balance: /m);
    expect(status).toMatch(
      new RegExp(`^differs {3}row 2, user ${user}: .* was 10.00, should be 12.50 and is 7.00$`, 'm'),
    );
    expect((await bulk(['status'])).stdout).toMatch(/1 applied, 1 differs/);
  });
});

describe('The typed total', () => {
  test('of a transfer is its net, its gross and its number of users', async () => {
    const { sandbox, bulk, plan } = await world();
    const [a, b] = [newUser(sandbox, 1_000), newUser(sandbox, 0)];
    const { batch } = await plan([
      [a, 'remove', '500'],
      [b, 'add', '500'],
    ]);
    const apply = (typed: string) =>
      bulk(['apply', batch], { terminal: 100, answers: [['To send 2 rows', `${typed}${enter}`]] });
    const net = await apply('0.00');
    expect([net.code, made(sandbox)]).toEqual([2, 0]);
    expect(net.stderr.replaceAll(/\s+│?\s*/g, ' ')).toContain(
      `To send 2 rows (net 0.00, 1,000.00 moved up and down, 2 users) to ${sandbox.url}, type 0.00 / 1000.00 / 2`,
    );
    expect((await apply('0.00 / 1000.00 / 3')).code).toBe(2);
    expect(made(sandbox)).toBe(0);
    expect((await apply('0.00/1000.00/2')).code).toBe(0);
    expect([made(sandbox), sandbox.control.get('users', b)?.['balance']]).toEqual([2, 500]);
  });
});
