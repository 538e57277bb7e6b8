import { Parser } from 'saxen';
import { describe, expect, test } from 'vitest';
import { chartOf } from '../../../src/data/chart/chart.ts';
import { chartSvg, textWidth } from '../../../src/data/chart/svg.ts';
import type { ChartKind } from '../../../src/data/reports/reports.ts';
import type { Row } from '../../../src/data/reading-types.ts';

interface Element {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  text: string;
}

/** All elements of the document; throws if it is not well-formed. */
function elementsOf(svg: string): Element[] {
  const found: Element[] = [];
  const fail = (error: Error): never => {
    throw error;
  };
  const parser = new Parser()
    .on('openTag', (name, attributes, decode) => {
      const values = Object.entries(attributes() || {}).map(([key, value]) => [key, decode(value)]);
      found.push({ name, attributes: Object.fromEntries(values) as Element['attributes'], text: '' });
    })
    .on('text', (text, decode) => {
      const last = found.at(-1);
      if (last !== undefined) last.text += decode(text);
    })
    .on('warn', fail)
    .on('error', fail);
  parser.write(svg);
  parser.end();
  return found;
}

function draw(kind: ChartKind, names: readonly string[], rows: readonly Row[], title = 'Title'): string {
  const [x = '', ...y] = names;
  return chartSvg(
    chartOf(
      names.map((name) => ({ name })),
      rows,
      { kind, x, y, title },
      now,
    ),
  );
}

/** Within no month or day that the tests draw, except for one. */
const now = Date.parse('2027-05-11T09:00:00Z');

function textsOf(svg: string): string[] {
  return elementsOf(svg)
    .filter(({ name }) => name === 'text')
    .map(({ text }) => text);
}

const months: Row[] = Array.from({ length: 24 }, (_, index) => [
  `${2025 + Math.floor(index / 12)}-${String((index % 12) + 1).padStart(2, '0')}`,
  BigInt(1_000 + 317 * index),
  index === 5 ? null : 500 + index * 12.5,
]);
const long = Array.from({ length: 14 }, (_, index): Row => [
  `A package with quite a long name, number ${index}`,
  index * 10.25,
]);

describe.each<[string, ChartKind, string[], Row[]]>([
  ['a line', 'line', ['month', 'users'], months],
  ['lines', 'line', ['month', 'users', 'verified'], months],
  ['bars', 'bar', ['month', 'users'], months],
  ['groups of bars', 'bar', ['month', 'users', 'verified'], months],
  ['bars with long names', 'bar', ['package', 'revenue'], long],
  [
    'bars on both sides of zero',
    'bar',
    ['range', 'n'],
    [
      ['under 0', -12n],
      ['0', 350n],
      ['over 0', 1_200n],
    ],
  ],
  ['one point', 'line', ['day', 'n'], [['2026-01-01', 5n]]],
  [
    'bars of nothing',
    'bar',
    ['day', 'n'],
    [
      ['a', null],
      ['b', 0n],
    ],
  ],
  [
    'hours',
    'line',
    ['at', 'n'],
    [
      ['2026-01-01T00:00:00Z', 1n],
      ['2026-01-01T13:30:00Z', 2n],
    ],
  ],
])('the SVG chart of %s', (_, kind, names, rows) => {
  const svg = draw(kind, names, rows);

  test('is well-formed, with a title and valid numbers', () => {
    const [root] = elementsOf(svg);
    expect(root).toMatchObject({ name: 'svg', attributes: { role: 'img' } });
    expect(textsOf(svg)[0]).toBe('Title');
    expect(svg).not.toMatch(/NaN|Infinity|undefined/);
  });

  const page = Number(elementsOf(svg)[0]?.attributes['width']);
  const texts = elementsOf(svg)
    .filter(({ name }) => name === 'text')
    .map(({ attributes, text }) => {
      const length = textWidth(text, Number(attributes['font-size']));
      const part = { end: 1, middle: 0.5 }[attributes['text-anchor'] ?? ''] ?? 0;
      const left = Number(attributes['x']) - part * length;
      return { text, y: attributes['y'], left, right: left + length };
    });

  test('has no text outside the page', () => {
    expect(texts.filter(({ left, right }) => left < 0 || right > page)).toEqual([]);
  });

  test('has no overlapping texts', () => {
    const touching = texts.flatMap((one, index) =>
      texts
        .slice(index + 1)
        .filter((other) => other.y === one.y && other.left < one.right && one.left < other.right)
        .map((other) => [one.text, other.text]),
    );
    expect(touching).toEqual([]);
  });
});

test('the same rows give the same bytes', () => {
  expect(draw('line', ['month', 'users'], months)).toBe(draw('line', ['month', 'users'], months));
});

test('the length of a bar is proportional to its value', () => {
  const bars = elementsOf(
    draw(
      'bar',
      ['label', 'n'],
      [
        ['a', 10n],
        ['b', 40n],
        ['c', -20n],
      ],
    ),
  )
    .filter(({ name, attributes }) => name === 'rect' && attributes['x'] !== undefined)
    .map(({ attributes }) => Number(attributes['width']));
  const [ten = 0, forty = 0, twenty = 0] = bars;
  expect(forty / ten).toBeCloseTo(4, 1);
  expect(twenty / ten).toBeCloseTo(2, 1);
});

test('a missing value is a gap in the line', () => {
  const rows: Row[] = [
    ['2026-01-01', 1n],
    ['2026-01-02', 2n],
    ['2026-01-03', null],
    ['2026-01-04', 2n],
  ];
  const path = elementsOf(draw('line', ['day', 'n'], rows)).find(({ name }) => name === 'path')?.attributes['d'];
  expect(path?.match(/M/g)).toHaveLength(2);
});

test('text from the data is escaped', () => {
  const evil = `<script>alert("1")</script> & 'so' \u0000\uD800`;
  const svg = draw('bar', [`<b>${evil}`, 'n"'], [[evil, 1n]], evil);
  expect(elementsOf(svg).map(({ name }) => name)).not.toContain('script');
  expect(textsOf(svg)[0]).toBe(`<script>alert("1")</script> & 'so' \uFFFD\uFFFD`);
});

describe('what is not over', () => {
  const rows: Row[] = [
    ['2027-05-10', 7n],
    ['2027-05-11', 2n],
  ];

  test('is a hollow point of a line, and the words below say so', () => {
    const svg = draw('line', ['day', 'users'], rows);
    const circles = elementsOf(svg).filter(({ name }) => name === 'circle');
    expect(circles.map(({ attributes }) => attributes['fill'])).toEqual(['#0072b2', '#ffffff']);
    expect(textsOf(svg).at(-1)?.trim()).toBe('day (hollow: 2027-05-11 is not over)');
  });

  test('is said beside a bar', () => {
    expect(textsOf(draw('bar', ['day', 'users'], rows))).toContain('2027-05-11 (not over)');
  });
});

test('a picture has other colours in dark mode, each of them for one of the light ones', () => {
  const svg = draw('line', ['month', 'users', 'verified'], months);
  const [style = ''] = /<style>.*<\/style>/.exec(svg) ?? [];
  expect(style).toMatch(/^<style>@media \(prefers-color-scheme:dark\)/);
  for (const [, light = ''] of style.matchAll(/\[fill="(#\w+)"\]/g)) expect(light).toMatch(/^#[0-9a-f]{6}$/);
  expect(style).toContain('[fill="#ffffff"]{fill:#14181d}');
});
