import { expect, test } from 'vitest';
import { expectMirrored, sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

// No budget for old windows, so that only what is known to change is read again.
const shape = { resources: ['emails'], pageSize: 20, windowPages: 2, requestsPerRun: 0 } as const;

test('unsent emails that are sent, changed or deleted are found without a budget', async () => {
  const sandbox = await startSandbox({ emails: 900 });
  const file = `${temporaryFolder()}/mirror.db`;
  await sync(sandbox, file, shape);
  const waiting = sandbox.control.dump('emails').filter((email) => email['is_sent'] === 0);
  const [sent, changed, deleted] = waiting.map((email) => Number(email['id']));
  sandbox.control.update('emails', sent ?? 0, { is_sent: 1 });
  sandbox.control.update('emails', changed ?? 0, { subject: 'A better subject' });
  sandbox.control.remove('emails', deleted ?? 0);
  sandbox.control.clearRequests();
  const { report } = await sync(sandbox, file, shape);
  expect(report.resources.emails).toMatchObject({ status: 'complete', updated: 2, deleted: 1 });
  expect(sandbox.control.requests().total).toBeLessThan(900 / 20);
  expectMirrored(sandbox, file, ['emails']);
});

test('a server that ignores the filter is still mirrored completely', async () => {
  const sandbox = await startSandbox({ emails: 300, behaviour: { filter_errors: 'is_sent' } });
  const file = `${temporaryFolder()}/mirror.db`;
  await sync(sandbox, file, shape);
  const { report } = await sync(sandbox, file, shape);
  expect(report.status).toBe('complete');
  expectMirrored(sandbox, file, ['emails']);
});
