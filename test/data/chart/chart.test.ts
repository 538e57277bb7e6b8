import { describe, expect, test } from 'vitest';
import { chartOf, guessChart } from '../../../src/data/chart/chart.ts';
import type { Row } from '../../../src/data/reading-types.ts';

function named(...names: string[]) {
  return names.map((name) => ({ name }));
}

describe('the guessed chart', () => {
  test.each<[string, string[], Row[], object]>([
    [
      'months as a line',
      ['month', 'users'],
      [
        ['2026-01', 3n],
        ['2026-02', 5n],
      ],
      { kind: 'line', x: 'month', y: ['users'] },
    ],
    ['labels as bars', ['status', 'n', 'b'], [['active', 3n, 1.5]], { kind: 'bar', x: 'status', y: ['n', 'b'] }],
    ['numbers alone against the first', ['id', 'balance'], [[1n, 2.5]], { kind: 'bar', x: 'id', y: ['balance'] }],
    [
      'time before other labels',
      ['status', 'day', 'n'],
      [['a', '2026-01-01', 1n]],
      { kind: 'line', x: 'day', y: ['n'] },
    ],
    [
      'numbers among which one is missing',
      ['s', 'n'],
      [
        ['a', null],
        ['b', 2n],
      ],
      { kind: 'bar', y: ['n'] },
    ],
  ])('draws %s', (_, names, rows, expected) => {
    expect(guessChart(named(...names), rows)).toMatchObject(expected);
  });

  test.each<[string, string[], Row[], string]>([
    ['no numbers', ['a', 'b'], [['x', 'y']], 'no column of the result holds numbers'],
    ['one column', ['n'], [[1n]], 'the result has only one column'],
  ])('is refused for %s', (_, names, rows, message) => {
    expect(() => guessChart(named(...names), rows)).toThrow(message);
  });
});

const request = { kind: 'line', x: 'day', y: ['n'], title: 'N' } as const;

const now = Date.parse('2026-03-02T09:00:00Z');

describe('a chart', () => {
  test('has its points in order of time, and a gap for a missing value', () => {
    const rows: Row[] = [
      ['2026-03-02', 2n],
      ['2026-03-01', 1.5],
      ['2026-03-03', null],
    ];
    expect(chartOf(named('day', 'n'), rows, request, now)).toEqual({
      kind: 'line',
      title: 'N',
      x: {
        name: 'day',
        kind: 'time',
        places: ['2026-03-01', '2026-03-02', '2026-03-03'].map((label) => ({
          label,
          at: Date.parse(label),
          isOpen: label === '2026-03-02',
        })),
      },
      series: [{ name: 'n', values: [1.5, 2, null] }],
    });
  });

  test.each([
    ['2026-03-02', true],
    ['2026-03', true],
    ['2026', true],
    ['2026-03-01', false],
    ['2026-02', false],
    ['2026-03-02T09:00:00.000000Z', false],
  ])('knows whether the day, month or year %s is over', (label, isOpen) => {
    const { x } = chartOf(named('day', 'n'), [[label, 1n]], request, now);
    expect(x.places).toMatchObject([{ label, isOpen }]);
  });

  test('has its bars in the order of rows', () => {
    const rows: Row[] = [
      ['b', 2n],
      [null, 1n],
    ];
    const { x } = chartOf(named('day', 'n'), rows, { ...request, kind: 'bar' }, now);
    expect(x).toMatchObject({ kind: 'label', places: [{ label: 'b' }, { label: '(none)' }] });
  });

  test.each<[string, Row[], object, string]>([
    ['of no rows', [], {}, 'the result has no rows'],
    ['of a column that is not there', [['2026-01', 1n]], { x: 'dya' }, 'needs a column "dya"'],
    ['of text', [['2026-01', 'abc']], {}, 'needs numbers in the column "n", and one of its values is "abc"'],
    ['of too many bars', Array.from({ length: 201 }, () => ['a', 1n]), { kind: 'bar' }, 'at most 200 bars'],
    ['of too many series', [['2026-01', 1n]], { y: Array.from({ length: 8 }, () => 'n') }, '7 columns of numbers'],
  ])('%s is refused', (_, rows, change, message) => {
    expect(() => chartOf(named('day', 'n'), rows, { ...request, ...change }, now)).toThrow(message);
  });
});
