import { hash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { UnreadableResponse } from '../../src/api/response-body.ts';
import type { HttpResponse } from '../../src/api/http.ts';
import type { PageTask } from '../../src/mirror/page.ts';
import { openPageReader, openPlainReader } from '../../src/mirror/page-reader.ts';
import { eraEnd, eraStart } from '../../src/model/era.ts';
import type { ResourceName } from '../../src/model/resources.ts';
import { sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const rowsOf = [{ from: eraStart, to: eraEnd }];
const task: PageTask = { resource: 'users', page: 2, relations: [], rowsOf };

/** The response with memory of its own, as the transport gives it. */
function responseOf(text: string): HttpResponse {
  const body = Buffer.from(new TextEncoder().encode(text).buffer);
  const headers = { 'content-type': 'application/json', date: 'Sun, 22 Nov 2026 05:00:00 GMT', age: '3' };
  return { status: 200, headers, body, bytes: body.length, milliseconds: 12 };
}

const records = Array.from({ length: 20 }, (_, at) => ({
  id: at + 1,
  username: `user${at}`,
  created_at: `2026-03-${String(at + 1).padStart(2, '0')}T10:00:00.000000Z`,
}));
const text = JSON.stringify({ current_page: 2, per_page: 20, last_page: 3, total: 60, data: records });

describe('a page that is made in a thread', () => {
  test('is the same as one that is made here, and takes the memory of the response', async () => {
    const response = responseOf(text);
    const page = await openPageReader()(response, task);
    expect(page).toEqual(openPlainReader()(responseOf(text), task));
    expect(page).toMatchObject({ page: 2, perPage: 20, lastPage: 3, total: 60, milliseconds: 12, ageMs: 3_000 });
    expect(page.ids).toEqual(records.map(({ id }) => id));
    expect(response.body).toHaveLength(0);
  });

  test('that came before is known by its bytes, and not parsed', async () => {
    const known = { hash: hash('sha1', text, 'base64'), total: 60, lastPage: 3, perPage: 20 };
    const page = await openPageReader()(responseOf(text), { ...task, known });
    expect(page).toMatchObject({ ...known, ids: [], rows: [] });
  });

  test('holds the records of its places alone, and rows for each range that was asked for', async () => {
    const days = [
      { from: eraStart, to: '2026-03-06' },
      { from: '2026-03-06', to: eraEnd },
    ] as unknown as PageTask['rowsOf'];
    const page = await openPageReader()(responseOf(text), {
      ...task,
      places: { from: 3, to: 8 },
      rowsOf: days ?? [],
      field: 'username',
    });
    expect(page.ids).toEqual([4, 5, 6, 7, 8]);
    expect(page.field).toEqual(['user3', 'user4', 'user5', 'user6', 'user7']);
    expect(page.rows.map(({ ids }) => ids)).toEqual([
      [4, 5],
      [6, 7, 8],
    ]);
  });

  test.each(['', '<html>', '{"current_page": 2', '{"success": false, "errors": ["no"]}', text.replace('2,', '1,')])(
    'that cannot be read is told as it would be here: %s',
    async (body) => {
      const here = await Promise.resolve()
        .then(() => openPlainReader()(responseOf(body), task))
        .catch((error: unknown) => error);
      expect(here).toBeInstanceOf(UnreadableResponse);
      const there = openPageReader()(responseOf(body), task);
      await expect(there).rejects.toThrow(here);
      await expect(there).rejects.toBeInstanceOf(UnreadableResponse);
    },
  );

  test('fails with what went wrong there, and the next one comes', async () => {
    const read = openPageReader();
    const bug = read(responseOf(text), { ...task, resource: 'nothing' as ResourceName });
    await expect(bug).rejects.toThrow(/nothing/);
    expect((await read(responseOf(text), task)).total).toBe(60);
  });
});

test('a sync reads in the thread, and leaves nothing that keeps a process alive', async () => {
  const sandbox = await startSandbox();
  const { report } = await sync(sandbox, `${temporaryFolder()}/mirror.db`);
  expect(report.status).toBe('complete');
  const ports = process.getActiveResourcesInfo().filter((name) => name === 'MessagePort' || name === 'Worker');
  expect(ports).toEqual([]);
});
