/** Holds the way of a page in docs/architecture.md to a sync: each file that it names is gone through by one. */
import { Session } from 'node:inspector/promises';
import { expect, test } from 'vitest';
import { sectionOf } from '../support/documents.ts';
import { sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** The files of which some function is called meanwhile. */
async function calledBy(doing: () => Promise<unknown>): Promise<string[]> {
  const session = new Session();
  session.connect();
  try {
    await session.post('Profiler.enable');
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
    await doing();
    const { result } = await session.post('Profiler.takePreciseCoverage');
    const isCalled = ({ functions }: (typeof result)[number]) =>
      functions.some(({ functionName, ranges: [range] }) => functionName !== '' && (range?.count ?? 0) > 0);
    return result.filter(isCalled).map(({ url }) => url);
  } finally {
    session.disconnect();
  }
}

test('a sync goes through each file of the way of a page, and they are at most twelve', async () => {
  const rows = sectionOf('docs/architecture.md', 'The way of a page')
    .split('\n')
    .filter((line) => line.startsWith('| `src/'));
  const files = rows.flatMap((row) => [...row.matchAll(/`([\w/-]+\.ts)`/g)].map(([, file]) => String(file)));
  expect(rows.length).toBeGreaterThan(5);
  expect(files.length).toBeLessThanOrEqual(12);
  const sandbox = await startSandbox({ users: 30 });
  const called = await calledBy(() => sync(sandbox, `${temporaryFolder()}/mirror.db`));
  expect(files.filter((file) => !called.some((url) => url.endsWith(file)))).toEqual([]);
});
