/** Draws a picture as SVG: text made of the numbers alone, so the same rows give the same bytes. */
import { scaleLinear, scaleUtc } from 'd3-scale';
import { line } from 'd3-shape';
import type { Chart, ChartAxis } from './chart.ts';
import { cut, width } from '../text-table.ts';
import { dayMs, hourMs, timestampOf } from '../../model/time.ts';

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
};

/** Escapes text for XML. Characters that XML cannot hold become U+FFFD, the replacement character. */
function escaped(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\uFFFE\uFFFF]/gu, '\uFFFD')
    .replaceAll(/[&<>"']/g, (character) => entities[character] ?? character);
}

type Attributes = Readonly<Record<string, string | number>>;

/** Returns `<name …>content</name>`; the content is SVG. */
function tag(name: string, attributes: Attributes, content = ''): string {
  const list = Object.entries(attributes).map(([key, value]) => ` ${key}="${escaped(textOf(value))}"`);
  return content === '' ? `<${name}${list.join('')}/>` : `<${name}${list.join('')}>${content}</${name}>`;
}

/** Writes numbers to a hundredth of a pixel. */
function textOf(value: string | number): string {
  return typeof value === 'string' ? value : String(Math.round(value * 100) / 100);
}

function textTag(text: string, attributes: Attributes): string {
  return tag('text', attributes, escaped(text));
}

/** Estimates the width of the text in pixels. Rather too wide, since the reader's font is not known. */
export function textWidth(text: string, size: number): number {
  return width(text) * size * 0.6;
}

const page = { width: 880, height: 480, margin: 28 } as const;
const textSize = 13;
const ink = { text: '#1f2933', soft: '#52606d', grid: '#e4e7eb', axis: '#9aa5b1' } as const;

/** Colours that colour-blind people can tell apart: those of Okabe and Ito, without the pale yellow. */
const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000'] as const;

/** Lines also differ in their dashes, for prints without colours. */
const dashes = ['none', '8 4', '2 3', '10 3 2 3', '5 5', '14 4', '4 2'] as const;

function colourOf(series: number): string {
  return colours[series % colours.length] ?? colours[0];
}

function dashOf(series: number): string {
  return dashes[series % dashes.length] ?? dashes[0];
}

/** Draws the title and, for several series, a legend. `bottom` is where the rest of the page begins. */
function headOf(chart: Chart): { readonly svg: string; readonly bottom: number } {
  const room = Math.floor((page.width - 2 * page.margin) / (20 * 0.6));
  const title = textTag(cut(chart.title, room), {
    x: page.margin,
    y: 42,
    'font-size': 20,
    'font-weight': 'bold',
    fill: ink.text,
  });
  if (chart.series.length < 2) return { svg: title, bottom: 66 };
  const parts: string[] = [];
  let x: number = page.margin;
  let y = 70;
  for (const [index, { name }] of chart.series.entries()) {
    const label = cut(name, 40);
    const width = 34 + textWidth(label, textSize);
    if (x + width > page.width - page.margin && x > page.margin) {
      x = page.margin;
      y += 20;
    }
    parts.push(keyOf(chart, index, x, y), textTag(label, { x: x + 26, y, 'font-size': textSize, fill: ink.text }));
    x += width + 14;
  }
  return { svg: title + parts.join(''), bottom: y + 24 };
}

function keyOf({ kind }: Chart, series: number, x: number, y: number): string {
  if (kind === 'bar') return tag('rect', { x: x + 4, y: y - 11, width: 14, height: 12, fill: colourOf(series) });
  const stroke = { stroke: colourOf(series), 'stroke-width': 2.5, 'stroke-dasharray': dashOf(series) };
  return tag('line', { x1: x, y1: y - 4, x2: x + 20, y2: y - 4, ...stroke });
}

/** In dark mode: the colours of the console, and those of the series so light that they can be seen. */
const dark = Object.entries({
  '#ffffff': '#14181d',
  [ink.text]: '#e6eaee',
  [ink.soft]: '#a3adb8',
  [ink.grid]: '#2a3138',
  [ink.axis]: '#6b7681',
  '#0072b2': '#4aa8e0',
  '#000000': '#ffffff',
})
  .map(([light, colour]) => `[fill="${light}"]{fill:${colour}}[stroke="${light}"]{stroke:${colour}}`)
  .join('');
const darkStyle = `<style>@media (prefers-color-scheme:dark){${dark}}</style>`;

function documentOf(chart: Chart, height: number, parts: string): string {
  const background = tag('rect', { width: page.width, height, fill: '#ffffff' });
  return `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="${page.width}" height="${height}" viewBox="0 0 ${page.width} ${height}" role="img" font-family="Helvetica, Arial, 'Liberation Sans', sans-serif">
<title>${escaped(chart.title)}</title>
${darkStyle}${background}${parts}
</svg>
`;
}

/** Returns minimum and maximum. Math.min(...values) would fail for many values. */
function extentOf(values: readonly number[]): [number, number] {
  return values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity] as [
    number,
    number,
  ]);
}

/** Makes a value axis that includes zero and all values. */
function valueScale({ series }: Pick<Chart, 'series'>, ticks: number) {
  const values = series.flatMap(({ values }) => values.filter((value) => value !== null));
  const [low, high] = extentOf([0, ...values]);
  const scale = scaleLinear([low, low === high ? 1 : high], [0, 1]).nice(ticks);
  const format = scale.tickFormat(ticks);
  // Values are often counts, and marks such as 2.5 would not make sense then.
  const isWhole = values.every(Number.isInteger);
  const marks = scale.ticks(ticks).filter((mark) => !isWhole || Number.isInteger(mark));
  return { scale, marks: marks.map((value) => ({ value, label: format(value) })) };
}

interface Mark {
  readonly at: number;
  readonly label: string;
}

/** Makes an x axis of times or numbers: a scale to 0..1, and about `count` marks. */
function placeScale(
  axis: ChartAxis,
  count: number,
): { readonly scale: (at: number) => number; readonly marks: readonly Mark[] } {
  const places = axis.places.map(({ at }) => at ?? 0);
  const [low, high] = extentOf(places);
  if (low === high) return { scale: () => 0.5, marks: [{ at: low, label: axis.places[0]?.label ?? '' }] };
  if (axis.kind === 'number') {
    const scale = scaleLinear([low, high], [0, 1]);
    const format = scale.tickFormat(count);
    return { scale, marks: scale.ticks(count).map((at) => ({ at, label: format(at) })) };
  }
  const scale = scaleUtc([low, high], [0, 1]);
  const marks = scale.ticks(count).map((date) => date.getTime());
  return { scale, marks: marks.map((at) => ({ at, label: timeLabel(at, marks) })) };
}

/** Returns as much of the time as tells the marks apart. */
function timeLabel(at: number, marks: readonly number[]): string {
  const text = timestampOf(at);
  const all = (holds: (text: string) => boolean): boolean => marks.every((mark) => holds(timestampOf(mark)));
  if (all((each) => each.slice(4).startsWith('-01-01T00:00:00'))) return text.slice(0, 4);
  if (all((each) => each.slice(7).startsWith('-01T00:00:00'))) return text.slice(0, 7);
  if (marks.every((mark) => mark % dayMs === 0)) return text.slice(0, 10);
  const [, day = '', time = ''] = /^\d{4}-(.{5})T(.{5})/.exec(text) ?? [];
  return marks.every((mark) => mark % hourMs === 0 || mark % 60_000 === 0) ? `${day} ${time}` : text.slice(11, 19);
}

const numbers = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });

function valueLabel(value: number): string {
  return numbers.format(value);
}

export function chartSvg(chart: Chart): string {
  return chart.kind === 'line' ? linesSvg(chart) : barsSvg(chart);
}

interface Box {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

const label = { 'font-size': textSize, fill: ink.soft } as const;

/** The longest label beside bars, in characters. */
const longestLabel = 44;

function linesSvg(chart: Chart): string {
  const head = headOf(chart);
  const { scale, marks } = valueScale(chart, 6);
  const widest = Math.max(...marks.map((mark) => textWidth(mark.label, textSize)));
  const box: Box = {
    left: page.margin + widest + 8,
    right: page.width - page.margin,
    top: head.bottom + 20,
    bottom: page.height - 62,
  };
  const y = (value: number): number => box.bottom - scale(value) * (box.bottom - box.top);
  const grid = marks.map(({ value, label: text }) => {
    const stroke = value === 0 ? ink.axis : ink.grid;
    return (
      tag('line', { x1: box.left, x2: box.right, y1: y(value), y2: y(value), stroke }) +
      textTag(text, { x: box.left - 8, y: y(value) + 4, 'text-anchor': 'end', ...label })
    );
  });
  const [only, ...others] = chart.series;
  // With several series, the legend names them.
  const name =
    others.length > 0 ? '' : textTag(cut(only?.name ?? '', 60), { x: page.margin, y: box.top - 20, ...label });
  const open = chart.x.places.find(({ isOpen }) => isOpen);
  const words = open === undefined ? chart.x.name : `${chart.x.name} (hollow: ${open.label} is not over)`;
  const below = textTag(cut(words, 60), {
    x: (box.left + box.right) / 2,
    y: page.height - 18,
    'text-anchor': 'middle',
    ...label,
  });
  return documentOf(chart, page.height, head.svg + name + grid.join('') + pathsOf(chart, box, y) + below);
}

function placesOf({ x }: Chart, { left, right }: Box) {
  const length = right - left;
  const named = {
    scale: (at: number) => (at + 0.5) / x.places.length,
    marks: x.places.map(({ label }, at) => ({ at, label })),
  };
  const { scale, marks } = x.kind === 'label' ? named : placeScale(x, 8);
  const xOf = (at: number): number => left + scale(at) * length;
  return {
    xOf: (index: number): number => xOf(x.kind === 'label' ? index : (x.places[index]?.at ?? 0)),
    marks: thinned(
      marks.map(({ at, label: text }) => ({ x: xOf(at), label: text })),
      length,
    ),
  };
}

function pathsOf(chart: Chart, box: Box, y: (value: number) => number): string {
  const { xOf, marks } = placesOf(chart, box);
  const path = line<number | null>()
    .defined((value) => value !== null)
    .x((_, index) => xOf(index))
    .y((value) => y(value ?? 0))
    .digits(2);
  const lines = chart.series.map(({ values }, index) => {
    const stroke = { stroke: colourOf(index), 'stroke-width': 2.5, 'stroke-dasharray': dashOf(index) };
    const drawn = tag('path', { d: path(values) ?? '', fill: 'none', 'stroke-linejoin': 'round', ...stroke });
    // Circles for few points, since many would hide the line, and for a point between two gaps, which has no line.
    const isShort = values.length <= 40;
    const points = values.map((value, place) => {
      const isAlone = (values[place - 1] ?? null) === null && (values[place + 1] ?? null) === null;
      const isOpen = chart.x.places[place]?.isOpen === true;
      if (value === null || (!isShort && !isAlone && !isOpen)) return '';
      const at = { cx: xOf(place), cy: y(value), r: 3.5 };
      // Hollow: what is counted there will grow.
      return isOpen
        ? tag('circle', { ...at, r: 5, fill: '#ffffff', stroke: colourOf(index), 'stroke-width': 2 })
        : tag('circle', { ...at, fill: colourOf(index) });
    });
    return drawn + points.join('');
  });
  return lines.join('') + marksBelow(marks, box);
}

/** Keeps every second, third, … mark, so that labels do not overlap. */
function thinned<T extends { readonly label: string }>(marks: readonly T[], length: number): T[] {
  const widest = marks.reduce((most, mark) => Math.max(most, textWidth(mark.label, textSize)), 0) + 12;
  const every = Math.max(1, Math.ceil((widest * marks.length) / length));
  return marks.filter((_, index) => index % every === 0);
}

function marksBelow(marks: readonly { readonly x: number; readonly label: string }[], box: Box): string {
  return marks
    .map((mark) => {
      // A label at the end of the axis must stay on the page.
      const half = textWidth(mark.label, textSize) / 2;
      const x = Math.max(half + 4, Math.min(mark.x, page.width - half - 4));
      const tick = tag('line', { x1: mark.x, x2: mark.x, y1: box.bottom, y2: box.bottom + 5, stroke: ink.axis });
      return tick + textTag(mark.label, { x, y: box.bottom + 21, 'text-anchor': 'middle', ...label });
    })
    .join('');
}

/** Draws bars below each other, with the label on the left and the value on the right, as in a terminal. The page is as high as needed. */
function barsSvg(chart: Chart): string {
  const { x, series } = chart;
  const head = headOf(chart);
  const names = x.places.map(({ label: text, isOpen }) => cut(isOpen ? `${text} (not over)` : text, longestLabel));
  const shown = series.map(({ values }) => values.map((value) => (value === null ? '' : valueLabel(value))));
  const { scale } = valueScale(chart, 6);
  const thickness = series.length === 1 ? 18 : 14;
  const step = thickness * series.length + 8;
  const left = page.margin + textWidth('n', textSize) * Math.max(...names.map(width)) + 10;
  const right = page.width - page.margin - textWidth('0', textSize) * Math.max(...shown.flat().map(width)) - 6;
  const at = (value: number): number => left + scale(value) * (right - left);
  const top = head.bottom + 16;
  const bars = x.places.map((_, place) => {
    const y = top + place * step;
    const middle = y + (thickness * series.length) / 2 + 4;
    const name = textTag(names[place] ?? '', {
      x: left - 10,
      y: middle,
      'text-anchor': 'end',
      ...label,
      fill: ink.text,
    });
    const own = series.map(({ values }, index) => {
      const value = values[place] ?? null;
      if (value === null) return '';
      const from = Math.min(at(0), at(value));
      const barY = y + index * thickness;
      const size = { x: from, y: barY, width: Math.abs(at(value) - at(0)), height: thickness - 1 };
      const text = { x: Math.max(at(0), at(value)) + 6, y: barY + thickness / 2 + 4 };
      return (
        tag('rect', { ...size, fill: colourOf(index) }) + textTag(shown[index]?.[place] ?? '', { ...text, ...label })
      );
    });
    return name + own.join('');
  });
  const bottom = top + x.places.length * step;
  const zero = tag('line', { x1: at(0), x2: at(0), y1: top - 6, y2: bottom, stroke: ink.axis });
  const [only, ...others] = series;
  const above = others.length > 0 ? '' : textTag(cut(only?.name ?? '', 60), { x: at(0), y: top - 12, ...label });
  return documentOf(chart, Math.ceil(bottom + page.margin), head.svg + above + bars.join('') + zero);
}
