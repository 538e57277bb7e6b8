import { expect, test } from 'vitest';
import { tableText, width } from '../../src/data/text-table.ts';
import type { Cell } from '../../src/data/reading-types.ts';

function table(names: readonly string[], rows: Iterable<readonly Cell[]>, room?: number): string[] {
  return [
    ...tableText(
      names.map((name) => ({ name, table: null, origin: null })),
      rows,
      room,
    ),
  ];
}

test('a table aligns numbers to the right and text to the left, and leaves null empty', () => {
  expect(
    table(
      ['id', 'name', 'balance'],
      [
        [1n, 'Anna', 12.5],
        [1000n, null, null],
        [2n, 'Bo', -3n],
      ],
    ),
  ).toEqual(['  id  name  balance', '----  ----  -------', '   1  Anna     12.5', '1000', '   2  Bo         -3']);
});

test('rows that have no room even in narrow columns have a line for each value that is there', () => {
  const names = Array.from({ length: 12 }, (_, at) => `column_${at}`);
  const row = names.map((_, at) => (at === 3 ? null : `${at} ${'long text '.repeat(9)}`));
  const lines = table(names, [row, row], 60).flatMap((text) => text.split('\n'));
  expect(lines).toHaveLength(2 * 12);
  expect(lines.filter((line) => line.startsWith('---'))).toEqual(['--- row 1 ---', '--- row 2 ---']);
  expect(lines[1]).toMatch(/^column_0 {3}0 long text .*…$/);
  expect(lines.some((line) => line.startsWith('column_3'))).toBe(false);
  expect(Math.max(...lines.map(width))).toBe(60);
});

test('a column with text and numbers is text', () => {
  expect(table(['x'], [[1n], ['12,50']])).toEqual(['x', '-----', '1', '12,50']);
});

test('a table without a terminal cuts no value, and keeps each row on one line', () => {
  const lines = table(
    ['text', 'n'],
    [
      ['x'.repeat(100), 1n],
      ['two\nlines\tand a tab', 2n],
    ],
  );
  expect(lines[2]).toBe(`${'x'.repeat(100)}  1`);
  expect(lines[3]?.trimEnd()).toBe(`${'two lines and a tab'.padEnd(100)}  2`);
});

test('a table cannot be used to send control sequences to the terminal', () => {
  expect(table(['x\u001B[2J'], [['\u001B[31mred\u0007\u202Eabc']])).toEqual(['x[2J', '----------', '[31mredabc']);
});

test('a table with wide and combining characters has straight columns', () => {
  const lines = table(
    ['name', 'n'],
    [
      ['李小龍', 1n],
      ['e\u0301te\u0301', 2n],
      ['👩‍👩‍👧', 3n],
      ['ab', 4n],
    ],
  );
  expect(lines.slice(2).map((line) => width(line))).toEqual([9, 9, 9, 9]);
  expect(table(['x'], [['李'.repeat(30)]], 40)[2]).toBe(`${'李'.repeat(19)}…`);
});

test('a table in a terminal cuts later rows to the widths of the first two hundred, and elsewhere cuts nothing', () => {
  function* many() {
    for (let index = 0; index < 200; index += 1) yield ['eleven long', null];
    yield ['eleven longer', 'a column that was empty'];
  }
  expect(table(['x', 'y'], many(), 60).at(-1)).toBe('eleven lon…  a column …');
  expect(table(['x', 'y'], many()).at(-1)).toBe('eleven longer  a column that was empty');
});

test('a table without rows has a header', () => {
  expect(table(['id', 'name'], [])).toEqual(['id  name', '--  ----']);
});

test('a table in a terminal cuts the widest text first, and nothing if it fits', () => {
  const row = ['short', 'x'.repeat(100), 'y'.repeat(50), 12_345_678n];
  const lines = table(['a', 'b', 'c', 'n'], [row], 60);
  expect(lines[2]).toBe(`short  ${'x'.repeat(19)}…  ${'y'.repeat(20)}…  12345678`);
  expect(table(['a', 'b', 'c', 'n'], [row], 200)[2]).toContain('x'.repeat(100));
});

test('a table with many columns exceeds the terminal rather than cutting cells too short to read', () => {
  const names = Array.from({ length: 10 }, (_, index) => `c${index}`);
  const lines = table(names, [names.map(() => 'x'.repeat(30))], 60);
  expect(lines[2]).toBe(names.map(() => `${'x'.repeat(9)}…`).join('  '));
});

test('a table in a terminal never cuts runs, batches, times and amounts: it cuts text, or exceeds the terminal', () => {
  const time = '2026-11-23T07:33:57.014000Z';
  const row = [time, '20261123T073356-8dc62a42', '20261123-073330-2ti2', '1234567.50', '2026-11-23', 'text '.repeat(9)];
  const names = ['time', 'run', 'batch', 'amount', 'day', 'text'];
  for (const rows of [[row], [row, row.map(() => null)]]) {
    expect(table(names, rows, 60)[2]).toBe([...row.slice(0, 5), 'text text…'].join('  '));
  }
  function* late() {
    for (let index = 0; index < 200; index += 1) yield [null, 'x'];
    yield [time, 'x'];
  }
  expect(table(['time', 'x'], late(), 60).at(-1)).toBe(`${time}  x`);
  // In a column with other text, times may be cut.
  const mixed = [['2026-11-23'], ['x'.repeat(99)]];
  expect(table(['x'], mixed, 60)[3]).toBe(`${'x'.repeat(59)}…`);
});

test('a table does not cut a late number, even if its column is narrower', () => {
  function* many() {
    for (let index = 0; index < 200; index += 1) yield [1n];
    yield [123_456_789n];
  }
  expect(table(['n'], many(), 60).at(-1)).toBe('123456789');
});
