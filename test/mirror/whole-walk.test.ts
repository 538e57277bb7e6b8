import { expect, test } from 'vitest';
import type { RecordKey } from '../../src/model/records.ts';
import type { MirrorPage } from '../../src/mirror/page.ts';
import { type WalkPorts, walkUncut, walkWindow } from '../../src/mirror/walk.ts';

const total = 4;

/** Four records. Each of the first six passes shows one twice and the fourth never. */
function listOf(isOrdered: boolean) {
  let pass = 0;
  return (perPage: number): WalkPorts => {
    pass += 1;
    const order: readonly RecordKey[] = pass <= 6 ? [1, 2, 3, 2] : [1, 2, 3, 4];
    return {
      clock: { now: () => 0 },
      pageSize: perPage,
      expected: total,
      surplus: 0,
      pastEnd: 0,
      isOrdered,
      read: (page) => {
        const ids = order.slice((page - 1) * perPage, page * perPage);
        const lastPage = Math.ceil(total / perPage);
        const read = {
          page,
          perPage,
          lastPage,
          total,
          ids,
          createdAt: ids.map(() => null),
          field: [],
          rows: [],
          hash: '',
          milliseconds: 0,
        };
        return Promise.resolve(read satisfies MirrorPage);
      },
      record: () => ({ unusable: 0, duplicateIds: [] }),
    };
  };
}

test.each([
  ['takes many passes if the order changes with every request, because chance may hide a record from two', false, 0],
  ['takes two passes with different pages if the order is kept', true, 1],
])('to know that a list shows no more records %s', async (_, isOrdered, surplus) => {
  const portsOf = listOf(isOrdered);
  const verdict = await walkUncut(portsOf, 2, await walkWindow(portsOf, 2, Infinity));
  expect(verdict).toMatchObject({ kind: 'settled', surplus });
});
