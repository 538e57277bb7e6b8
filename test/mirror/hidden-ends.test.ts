import { expect, test } from 'vitest';
import { behindProxy } from '../support/altering-proxy.ts';
import { newMirror, sync } from '../support/mirror.ts';

/** A list that gives the newest first, whatever order is asked for. */
const newestFirst = (path: string) => {
  const sorted = path.replace(/(created_at(?:\]|%5D)=)asc/, '$1desc');
  return path.includes('sort') || !path.includes('/users?') ? sorted : `${path}&sort[created_at]=desc`;
};

test.each([
  { ranges: 'ignored', depth: 600 },
  { ranges: 'ignored', depth: 990 },
] as const)(
  'a list that gives the newest first and ends after $depth of 1,000 records is not complete',
  async (drawn) => {
    const { sandbox, file } = await newMirror({ users: 1_000 });
    sandbox.control.setBehaviour({ date_ranges: drawn.ranges, depth: drawn.depth });
    const server = await behindProxy(sandbox, () => ({}), newestFirst);
    for (let run = 0; run < 2; run += 1) {
      const { report } = await sync(server, file, { resources: ['users'] });
      expect(report.resources.users?.status).not.toBe('complete');
    }
  },
);

test.each([5_000, 1e15])('totals that are %d for every request leave each list incomplete', async (total) => {
  const { sandbox, file } = await newMirror();
  const server = await behindProxy(sandbox, ({ body }) => ({
    body: body.replace(/"total":\d+/, `"total":${total}`),
  }));
  const { report, error } = await sync(server, file);
  expect(error?.exitCode).toBe(5);
  for (const each of Object.values(report.resources)) expect(each?.status).not.toBe('complete');
});
