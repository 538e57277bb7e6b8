import { describe, expect, onTestFinished, test } from 'vitest';
import type { DayRange } from '../../src/model/era.ts';
import type { Day } from '../../src/model/time.ts';
import { timestampOf } from '../../src/model/time.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { Surplus, surplusWords } from '../../src/mirror/surplus.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const day = (of: string, to: string): DayRange => ({ from: of as Day, to: to as Day });

const [first, second, third] = [
  day('2024-02-28', '2024-02-29'),
  day('2024-02-29', '2024-03-01'),
  day('2024-03-01', '2024-03-02'),
];

/** The surplus of users in a new mirror, and whether it was written. */
function opened() {
  const store = openMirrorStore(`${temporaryFolder()}/mirror.db`);
  onTestFinished(() => store.close());
  let writes = 0;
  const counting = {
    ...store,
    recordCapability: (...given: Parameters<typeof store.recordCapability>) => {
      writes += 1;
      store.recordCapability(...given);
    },
  };
  const surplus = new Surplus(counting, 'users');
  const isWritten = (doing: () => void): boolean => {
    const before = writes;
    doing();
    return writes > before;
  };
  return { store, surplus, isWritten, again: () => new Surplus(store, 'users') };
}

describe('the known surplus', () => {
  const at = timestampOf(Date.UTC(2026, 2, 11));

  test('is kept for the next run', () => {
    const { surplus, again } = opened();
    surplus.note(first, 3);
    surplus.note(second, 5, 2);
    surplus.noteUnreadable(third, { missing: 1, records: 4, at });
    surplus.noteList(9, 100, [first, second, third]);
    for (const known of [surplus, again()]) {
      expect([known.list, known.of(first), known.of(second), known.of(third)]).toEqual([9, 3, 5, 0]);
      expect([known.pastEndOf(first), known.pastEndOf(second)]).toEqual([3, 2]);
      expect([known.searchedAt(third), known.searchedAt(first)]).toEqual([at, undefined]);
      expect([known.unreadableIn([first, third]), known.unreadableIn([first])]).toEqual([4, 0]);
    }
  });

  test('is kept for the next run even if it has only one part', () => {
    const unreadable = opened();
    unreadable.surplus.noteUnreadable(third, { missing: 1, records: 4, at });
    expect(unreadable.again().searchedAt(third)).toBe(at);
    const list = opened();
    list.surplus.noteList(-3, 100, []);
    expect([list.again().list, list.again().isCapped(-5, 100)]).toEqual([-3, true]);
  });

  test('of a window is forgotten once its total is right again, and the last one removes the record', () => {
    const { store, surplus, again } = opened();
    surplus.note(first, 3, 1);
    surplus.note(second, 5);
    surplus.note(first, 0, 1);
    expect([surplus.of(first), surplus.pastEndOf(first), again().of(first)]).toEqual([0, 0, 0]);
    surplus.noteUnreadable(second, { missing: 1, records: 1, at });
    surplus.note(second, 0);
    expect([surplus.searchedAt(second), store.capability('surplus', 'users')]).toEqual([undefined, undefined]);
  });

  test('of other windows is assumed for one only if it is more than the given number', () => {
    const { surplus } = opened();
    surplus.note(first, 3);
    surplus.note(second, 3);
    expect([surplus.of(third), surplus.sureOf(third, 2), surplus.sureOf(third, 3)]).toEqual([3, 3, 0]);
    expect(surplus.sureOf(first, 3)).toBe(3);
  });

  test('past the end of a list is that of the last look', () => {
    const { surplus, again } = opened();
    surplus.note(first, 5, 2);
    surplus.note(first, 5);
    expect([surplus.pastEndOf(first), again().pastEndOf(first)]).toEqual([5, 5]);
    surplus.note(first, 5, 1);
    expect(again().pastEndOf(first)).toBe(1);
  });

  test('is written only if it changed', () => {
    const { surplus, isWritten } = opened();
    expect(isWritten(() => surplus.note(first, 3))).toBe(true);
    expect(isWritten(() => surplus.note(first, 3))).toBe(false);
    expect(isWritten(() => surplus.note(first, 3, 1))).toBe(true);
    expect(isWritten(() => surplus.note(first, 3, 1))).toBe(false);
    expect(isWritten(() => surplus.note(second, 0))).toBe(false);
    surplus.noteUnreadable(first, { missing: 1, records: 1, at });
    expect(isWritten(() => surplus.note(first, 3, 1))).toBe(true);
    const list = (off: number, total: number, windows = [first]) =>
      isWritten(() => surplus.noteList(off, total, windows));
    expect([list(0, 100), list(3, 100), list(3, 100), list(3, 101), list(4, 101)]).toEqual([
      false,
      true,
      false,
      true,
      true,
    ]);
    surplus.note(second, 5);
    surplus.noteUnreadable(third, { missing: 1, records: 1, at });
    expect([list(4, 101, [first, third]), list(4, 101)]).toEqual([true, true]);
  });

  test('of windows that no longer exist is dropped', () => {
    const { surplus, again } = opened();
    surplus.note(first, 3);
    surplus.note(second, 5, 2);
    surplus.noteUnreadable(third, { missing: 1, records: 1, at });
    surplus.noteList(8, 100, [first]);
    for (const known of [surplus, again()]) {
      expect([known.of(first), known.of(second), known.pastEndOf(second)]).toEqual([3, 0, 0]);
      expect(known.searchedAt(third)).toBeUndefined();
    }
  });

  test('that two halves of a window show is assumed for every window without a better estimate', () => {
    const { surplus, again } = opened();
    surplus.assume(4);
    surplus.note(first, 3);
    expect([surplus.of(first), surplus.of(third), again().of(third)]).toEqual([3, 4, 0]);
    surplus.note(second, 3);
    expect(surplus.of(third)).toBe(3);
    surplus.note(day('2024-03-02', '2024-03-03'), 5);
    expect(surplus.of(third)).toBe(4);
  });

  test('applies to every range if the list and the windows have the same', () => {
    const { surplus } = opened();
    surplus.note(first, 3);
    surplus.note(second, 3);
    surplus.noteList(4, 100, [first, second]);
    expect(surplus.inEach()).toBe(0);
    surplus.noteList(3, 100, [first, second]);
    expect(surplus.inEach()).toBe(3);
  });

  test('of the windows explains that of the list if it is the sum, the same in each, or less with overlapping ranges', () => {
    const { surplus } = opened();
    const windows = [first, second];
    surplus.note(first, 3);
    surplus.noteUnreadable(second, { missing: 2, records: 9, at });
    const explains = (off: number, overlap = false) => surplus.explains(off, windows, overlap);
    expect([explains(5), explains(3), explains(4), explains(6), explains(0)]).toEqual([
      true,
      false,
      false,
      false,
      false,
    ]);
    expect([explains(4, true), explains(6, true), explains(0, true), explains(-1, true)]).toEqual([
      true,
      false,
      false,
      false,
    ]);
    surplus.note(second, 3);
    expect([explains(3), explains(6), explains(4)]).toEqual([true, true, false]);
    expect(surplus.isKnown(6, 100, windows)).toBe(true);
    surplus.noteList(4, 100, windows);
    expect([surplus.isKnown(4, 90, windows), surplus.isKnown(5, 100, windows)]).toEqual([true, false]);
  });

  test('below zero shows that a total is capped if the total does not move', () => {
    const { surplus } = opened();
    expect(surplus.isCapped(-5, 100)).toBe(false);
    surplus.noteList(3, 100, []);
    expect(surplus.isCapped(-5, 100)).toBe(false);
    surplus.noteList(-3, 100, []);
    expect([surplus.isCapped(-5, 100), surplus.isCapped(-5, 99), surplus.isCapped(0, 100)]).toEqual([
      true,
      false,
      false,
    ]);
    expect([surplus.isKnown(-5, 100, [first]), surplus.isKnown(-5, 99, [first])]).toEqual([true, false]);
    surplus.noteList(-3, 0, []);
    expect(surplus.isCapped(-5, 0)).toBe(false);
    surplus.noteList(0, 100, []);
    expect(surplus.isCapped(-5, 100)).toBe(false);
  });
});

test.each([
  [3, 'the totals of this list count 3 records that no page shows'],
  [-3, 'the totals of this list count 3 records fewer than its pages show'],
  [1, 'the totals of this list count 1 record that no page shows'],
  [-2504, 'the totals of this list count 2,504 records fewer than its pages show'],
])('a surplus of %i is reported as: %s', (surplus, words) => {
  expect(surplusWords(surplus)).toBe(words);
});

test.each([
  [3, 3, 'it may be the same for every total'],
  [-132, 0, 'a total that counts too few is capped'],
])('if two windows have a surplus of %i, %i is assumed for another: %s', (known, expected) => {
  const { surplus } = opened();
  surplus.note(first, known);
  surplus.note(second, known);
  expect(surplus.of(third)).toBe(expected);
  expect(surplus.shownIn({ ...third, serverTotal: 3 })).toBe(3 - expected);
});
