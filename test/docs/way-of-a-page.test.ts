/** Holds the way of a page in docs/architecture.md to a sync: each file that it names is gone through by one. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { sectionOf } from '../support/documents.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly functionName: string;
      readonly ranges: readonly { readonly count: number }[];
    }[];
  }[];
}

/** The files of which a run has called some function. */
function calledIn(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const { result } = JSON.parse(readFileSync(join(folder, name), 'utf8')) as Coverage;
    const isCalled = ({ functions }: Coverage['result'][number]) =>
      functions.some(({ functionName, ranges: [range] }) => functionName !== '' && (range?.count ?? 0) > 0);
    return result.filter(isCalled).map(({ url }) => url);
  });
}

test('a sync goes through each file that the table of the way of a page names, and they are at most twelve', async () => {
  const house = sectionOf('docs/architecture.md', 'The house');
  const way = house.slice(house.indexOf('**The way of a page**'));
  const rows = way.split('\n').filter((line) => line.startsWith('| `src/'));
  const files = rows.flatMap((row) => [...row.matchAll(/`([\w/-]+\.ts)`/g)].map(([, file]) => String(file)));
  expect(rows.length).toBeGreaterThan(5);
  expect(files.length).toBeLessThanOrEqual(12);
  const sandbox = await startSandbox({ users: 30 });
  const folder = temporaryFolder();
  const environment = {
    ADMIN_MIRROR_BASE_URL: sandbox.url,
    ADMIN_MIRROR_API_KEY: sandbox.key,
    NODE_V8_COVERAGE: join(folder, 'coverage'),
  };
  expect((await runCli(['sync', '--quiet'], { folder, environment })).code).toBe(0);
  const called = calledIn(join(folder, 'coverage'));
  expect(files.filter((file) => !called.some((url) => url.endsWith(file)))).toEqual([]);
});
