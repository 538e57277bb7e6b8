/** Holds the way of a page in docs/architecture.md to a sync: whichever of its files breaks, the sync fails. */
import { afterEach, expect, test, vi } from 'vitest';
import { filesOfWay } from '../support/documents.ts';
import { sample } from '../support/part.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { broken, brokenWords, type Breaks, exported, withBroken } from '../support/ways.ts';

type Maker = (...options: never[]) => Record<string, unknown>;

/** Breaks a method of what a function of the file makes. */
const made = (name: string, method: string) => (file: Record<string, unknown>) => ({
  [name]: (...options: never[]) => ({ ...(file[name] as Maker)(...options), [method]: broken }),
});

const breaks: Breaks = {
  'src/api/http.ts': made('openHttp', 'send'),
  'src/api/retry.ts': exported('read'),
  'src/api/body.ts': exported('pageOf'),
  'src/mirror/page.ts': exported('readPageOf'),
  'src/mirror/source.ts': (file) => ({
    apiSource: (...options: never[]) => {
      const source = (file['apiSource'] as Maker)(...options);
      return { ...source, within: () => ({ ...source, page: broken }) };
    },
  }),
  'src/mirror/read.ts': exported('readWindow'),
  'src/mirror/walk-window.ts': exported('walkWindow'),
  'src/mirror/store/mirror-store.ts': made('openMirrorStore', 'recordPages'),
  'src/mirror/store/upsert.ts': (file) => ({
    pageUpsert: (...options: never[]) => (file['pageUpsert'] as Maker)(...options) && broken,
  }),
  'src/mirror/judge.ts': exported('judge'),
};

afterEach(() => {
  vi.resetModules();
});

test('the files of the way of a page are at most ten, and each can be broken', () => {
  const files = filesOfWay('The way of a page');
  expect(files).toEqual(Object.keys(breaks));
  expect(files.length).toBeLessThanOrEqual(10);
});

test.each(sample(Object.entries(breaks), 2))('a sync fails if %s is broken', async (path, change) => {
  const sandbox = await startSandbox({ users: 30 });
  await withBroken(path, change, async () => {
    const { sync } = await import('../support/mirror.ts');
    await expect(sync(sandbox, `${temporaryFolder()}/mirror.db`)).rejects.toThrow(brokenWords);
  });
});
