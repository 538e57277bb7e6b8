import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { chartOf } from '../../../src/data/chart/chart.ts';
import { chartText } from '../../../src/data/chart/terminal.ts';
import type { ChartKind } from '../../../src/data/reports/reports.ts';
import { width } from '../../../src/data/text-table.ts';
import { forTerminal, styleWord } from '../../../src/model/text.ts';
import type { Row } from '../../../src/store/reading-types.ts';

function draw(kind: ChartKind, names: readonly string[], rows: readonly Row[], columns = 50, color = false): string[] {
  const [x = '', ...y] = names;
  const chart = chartOf(
    names.map((name) => ({ name })),
    rows,
    { kind, x, y, title: 'Title' },
  );
  return [...chartText(chart, { columns, rows: 24, style: color ? styleWord() : undefined })];
}

describe('a chart in the terminal', () => {
  test('has bars as long as their values', () => {
    const rows: Row[] = [
      ['active', 20n],
      ['pending', 10n],
      ['suspended', 5n],
      ['new', 0n],
    ];
    expect(draw('bar', ['status', 'users'], rows, 45)).toEqual([
      'Title',
      'active     20  ██████████████████████████████',
      'pending    10  ███████████████',
      'suspended   5  ███████▌',
      'new         0',
    ]);
  });

  test('has bars on both sides of zero, and a group per place', () => {
    const lines = draw(
      'bar',
      ['day', 'in', 'out'],
      [
        ['Mo', 10n, -10n],
        ['Tu', 5n, null],
      ],
      50,
    );
    expect(lines).toEqual([
      'Title',
      'Mo  in    10                    ██████████████████',
      '    out  -10  ██████████████████',
      'Tu  in     5                    █████████',
      '    out',
    ]);
  });

  test('has a line from the first to the last value, with time and value labels', () => {
    const rows = Array.from({ length: 12 }, (_, index): Row => [
      `2026-${String(index + 1).padStart(2, '0')}`,
      BigInt(index),
    ]);
    const lines = draw('line', ['month', 'n'], rows, 60);
    const plot = lines.filter((line) => /[┤│]/.test(line));
    expect(plot[0]).toMatch(/^ ?\d+ ┤/);
    expect(plot.at(-1)).toMatch(/^ ?0 ┤ ─/);
    expect(lines.at(-1)).toMatch(/2026-04 .* 2026-10/);
    expect(Math.max(...lines.map(width))).toBeLessThanOrEqual(60);
  });

  test('has series below each other, each with its own scale', () => {
    const rows: Row[] = [
      ['2026-01', 1n, 1_000_000n],
      ['2026-02', 2n, 3_000_000n],
    ];
    const lines = draw('line', ['month', 'few', 'many'], rows, 60);
    expect(lines.filter((line) => line === 'few' || line === 'many')).toEqual(['few', 'many']);
    expect(lines.some((line) => /^[24],000,000 ┤/.test(line))).toBe(true);
  });

  test.each([40, 60, 100, 200])('fits a terminal of %i columns', (columns) => {
    const bars = Array.from({ length: 5 }, (_, index): Row => [
      `A label that is long ${'x'.repeat(index * 20)}`,
      index * 1234.5,
    ]);
    const points = Array.from({ length: 300 }, (_, index): Row => [
      `2026-01-01T00:${String(index % 60).padStart(2, '0')}:00Z`,
      index,
    ]);
    for (const lines of [draw('bar', ['l', 'n'], bars, columns), draw('line', ['t', 'n'], points, columns)]) {
      expect(Math.max(...lines.map(width))).toBeLessThanOrEqual(columns);
    }
  });

  test('has colours only if requested, and the same text without them', () => {
    const rows: Row[] = [
      ['a', 1n],
      ['b', 2n],
    ];
    const plain = draw('bar', ['l', 'n'], rows);
    const coloured = draw('bar', ['l', 'n'], rows, 50, true);
    expect(plain.join('')).not.toContain('\u001B');
    expect(forTerminal(coloured.join(''))).toContain('\u001B[');
    expect(coloured.map((line) => stripVTControlCharacters(forTerminal(line)))).toEqual(plain);
  });

  test('cannot be used to send control sequences to the terminal', () => {
    const lines = draw('bar', ['l', 'n'], [['\u001B[2Jx\u0007', 1n]]);
    expect(lines).toEqual(['Title', expect.stringMatching(/^\[2Jx {2}1 {2}█+$/)]);
  });
});
