import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { BatchReport } from '../../src/bulk/report.ts';
import type { Behaviour } from '../support/bent/sandbox.ts';
import { invoke, type Invocation } from '../support/invoke.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

async function world(text: string, behaviour: Partial<Behaviour> = {}) {
  const sandbox = await startSandbox({ users: 9, emails: 5, behaviour });
  const folder = temporaryFolder();
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  writeFileSync(join(folder, 'rows.csv'), text);
  const bulk = (args: readonly string[], more: Invocation = {}) =>
    invoke(['bulk', ...args], { folder, environment, ...more });
  const newest = async (): Promise<BatchReport> => {
    const { stdout } = await bulk(['status', 'last', '--json']);
    return JSON.parse(stdout) as BatchReport;
  };
  return { sandbox, bulk, newest };
}

test('a row that needs a person says what to do, and the batch is done once a person has decided', async () => {
  const { sandbox, bulk, newest } = await world('user_id,type,icon,message\n3,success,bx,Hello\n', {
    includes_ignored: 'notifications',
  });
  sandbox.control.faultNext({ fault: 'commit_reset', match: { method: 'POST' } });
  const run = await bulk(['run', 'notify', 'rows.csv', '--yes']);
  expect(run).toMatchObject({ code: 8, stderr: expect.stringContaining('a person must find out what happened') });
  const { batch } = await newest();
  expect((await bulk(['resume', batch, '--settle-after', '0s'])).code).toBe(8);
  const { stdout } = await bulk(['status', batch]);
  expect(stdout).toContain(`bulk resolve ${batch} --row 2 --applied`);
  expect((await bulk(['resolve', batch, '--row', '2', '--applied', '--reason', 'seen'])).code).toBe(0);
  expect(await newest()).toMatchObject({ state: 'done', counts: { applied: 1 } });
  expect(sandbox.control.ledger()).toHaveLength(1);
});

test('deletions are confirmed by typing their number', async () => {
  const { sandbox, bulk } = await world('user_id\n3\n4\n');
  for (const user of [3, 4]) {
    for (const kind of ['orders', 'punishments']) sandbox.control.setRelated('users', user, kind, []);
  }
  const wrong = await bulk(['run', 'delete', 'rows.csv'], { terminal: 100, input: '0.00\r' });
  expect([wrong.code, sandbox.control.count('users')]).toEqual([2, 9]);
  const right = await bulk(['run', 'delete', 'rows.csv'], { terminal: 100, input: '2\r' });
  expect([right.code, sandbox.control.count('users')]).toEqual([0, 7]);
});

test('a deletion is forced only if both the row and --allow-force say so', async () => {
  const { sandbox, bulk } = await world('user_id,force\n3,yes\n');
  sandbox.control.setRelated('users', 3, 'punishments', [{ reason: 'spam' }]);
  const without = await bulk(['run', 'delete', 'rows.csv', '--yes']);
  expect(without).toMatchObject({ code: 2, stderr: expect.stringContaining('--allow-force') });
  expect((await bulk(['run', 'delete', 'rows.csv', '--yes', '--allow-force'])).code).toBe(0);
  expect(sandbox.control.get('users', 3)).toBeUndefined();
});
