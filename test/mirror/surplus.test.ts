import { expect, onTestFinished, test } from 'vitest';
import type { DayRange } from '../../src/model/era.ts';
import type { Day } from '../../src/model/time.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { Surplus } from '../../src/mirror/surplus.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const day = (of: string, to: string): DayRange => ({ from: of as Day, to: to as Day });

test.each([
  [3, 3, 'what every total counts too many is expected of a window that was never read'],
  [-132, 0, 'a total that counts too few is capped: nothing is expected of a window that was never read'],
])('where two windows are off by %i, %i is expected of another: %s', (known, expected) => {
  const store = openMirrorStore(`${temporaryFolder()}/mirror.db`);
  onTestFinished(() => store.close());
  const surplus = new Surplus(store, 'users');
  surplus.note(day('2024-02-28', '2024-02-29'), known);
  surplus.note(day('2024-02-29', '2024-03-01'), known);
  const other = day('2024-03-01', '2024-03-02');
  expect(surplus.of(other)).toBe(expected);
  expect(surplus.shownIn({ ...other, serverTotal: 3 })).toBe(3 - expected);
});
