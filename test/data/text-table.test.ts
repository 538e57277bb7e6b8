import { expect, test } from 'vitest';
import { tableText, width } from '../../src/data/text-table.ts';
import type { Cell } from '../../src/store/reading-types.ts';

function table(names: readonly string[], rows: Iterable<readonly Cell[]>, room?: number): string[] {
  return [
    ...tableText(
      names.map((name) => ({ name, table: null, origin: null })),
      rows,
      room,
    ),
  ];
}

test('a table has numbers and their heading to the right, text to the left, and nothing for null', () => {
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

test('a column with text among its numbers is text', () => {
  expect(table(['x'], [[1n], ['12,50']])).toEqual(['x', '-----', '1', '12,50']);
});

test('without a terminal to fit in, every value is whole, and one line stays one', () => {
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

test('data cannot command the terminal', () => {
  expect(table(['x\u001B[2J'], [['\u001B[31mred\u0007\u202Eabc']])).toEqual(['x[2J', '----------', '[31mredabc']);
});

test('wide and combined characters keep the columns straight', () => {
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

test('in a terminal, rows after the first two hundred are cut to the widths that those have; elsewhere they are whole', () => {
  function* many() {
    for (let index = 0; index < 200; index += 1) yield ['abc'];
    yield ['abcdef'];
  }
  expect(table(['x'], many(), 60).at(-1)).toBe('ab…');
  expect(table(['x'], many()).at(-1)).toBe('abcdef');
});

test('no rows give a heading', () => {
  expect(table(['id', 'name'], [])).toEqual(['id  name', '--  ----']);
});

test('in a terminal the widest text gives way first, and text that has room is whole', () => {
  const row = ['short', 'x'.repeat(100), 'y'.repeat(50), 12_345_678n];
  const lines = table(['a', 'b', 'c', 'n'], [row], 60);
  expect(lines[2]).toBe(`short  ${'x'.repeat(19)}…  ${'y'.repeat(20)}…  12345678`);
  expect(table(['a', 'b', 'c', 'n'], [row], 200)[2]).toContain('x'.repeat(100));
});

test('where many columns share a terminal, a line is longer than it before a cell is too short to read', () => {
  const names = Array.from({ length: 10 }, (_, index) => `c${index}`);
  const lines = table(names, [names.map(() => 'x'.repeat(30))], 60);
  expect(lines[2]).toBe(names.map(() => `${'x'.repeat(9)}…`).join('  '));
});

test('a number that comes late is not cut, though the column is narrower', () => {
  function* many() {
    for (let index = 0; index < 200; index += 1) yield [1n];
    yield [123_456_789n];
  }
  expect(table(['n'], many(), 60).at(-1)).toBe('123456789');
});
