/** Holds the way of a row in docs/architecture.md to `bulk run`: whichever of its files breaks, the batch fails. */
import { writeFileSync } from 'node:fs';
import { afterEach, expect, test, vi } from 'vitest';
import { filesOfWay } from '../support/documents.ts';
import { sample } from '../support/part.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { broken, brokenWords, type Breaks, exported, method, withBroken } from '../support/ways.ts';

const breaks: Breaks = {
  'src/bulk/sheet/text.ts': exported('readDelimited'),
  'src/bulk/sheet/rows.ts': method('SheetRows', 'add'),
  'src/bulk/read-rows.ts': exported('readRows'),
  'src/bulk/row-reader.ts': method('RowReader', 'amount'),
  'src/bulk/actions/balance.ts': ({ balance }) => ({ balance: { ...(balance as object), body: broken } }),
  'src/bulk/plan.ts': exported('planBatch'),
  'src/bulk/find-users.ts': exported('findUsers'),
  'src/bulk/plan-rows.ts': exported('planRows'),
  'src/journal/batches.ts': exported('addBatch'),
  'src/journal/rows.ts': exported('takeStep'),
  'src/bulk/claim.ts': exported('claimRows'),
  'src/bulk/send-batch.ts': exported('sendBatch'),
  'src/bulk/run.ts': method('Run', 'all'),
  'src/bulk/send-row.ts': exported('sendRow'),
  'src/bulk/settle.ts': exported('settleRow'),
};

afterEach(() => {
  vi.resetModules();
});

/** Sends one row of a sheet, and returns how the command ended. */
async function sent() {
  const { runCli } = await import('../support/cli.ts');
  const sandbox = await startSandbox({ users: 3 });
  const folder = temporaryFolder();
  writeFileSync(`${folder}/credit.csv`, 'user_id,type,amount\n2,add,5.00\n');
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  return runCli(['bulk', 'run', 'balance', 'credit.csv', '--yes'], { folder, environment });
}

test('the files of the way of a row are at most fifteen, and a row that is sent goes through them', async () => {
  const files = filesOfWay('The way of a row');
  expect(files).toEqual(Object.keys(breaks));
  expect(files.length).toBeLessThanOrEqual(15);
  expect(await sent()).toMatchObject({ code: 0, stdout: expect.stringContaining('1 applied') });
});

test.each(sample(Object.entries(breaks), 2))('no row is applied if %s is broken', async (path, change) => {
  const { code, stderr } = await withBroken(path, change, sent);
  expect(code).not.toBe(0);
  expect(stderr).toContain(brokenWords);
});
