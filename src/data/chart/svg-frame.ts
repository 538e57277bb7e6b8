/** What every picture has around its lines or bars: the page, the title, the legend. */
import { cut } from '../text-width.ts';
import type { Chart } from './chart.ts';
import { escaped, tag, textTag, textWidth } from './svg-text.ts';

export const page = { width: 880, height: 480, margin: 28 } as const;
export const textSize = 13;
export const ink = { text: '#1f2933', soft: '#52606d', grid: '#e4e7eb', axis: '#9aa5b1' } as const;

/** Told apart by people who see no red, no green or no blue: the colours of Okabe and Ito, without the pale yellow. */
const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000'] as const;

/** Lines differ in their dashes too, for a print without colours. */
const dashes = ['none', '8 4', '2 3', '10 3 2 3', '5 5', '14 4', '4 2'] as const;

export function colourOf(series: number): string {
  return colours[series % colours.length] ?? colours[0];
}

export function dashOf(series: number): string {
  return dashes[series % dashes.length] ?? dashes[0];
}

/** The title and, where there are several series, what each looks like; and where the rest of the page begins. */
export function headOf(chart: Chart): { readonly svg: string; readonly bottom: number } {
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

/** The whole document around the parts. */
export function documentOf(chart: Chart, height: number, parts: string): string {
  const background = tag('rect', { width: page.width, height, fill: '#ffffff' });
  return `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="${page.width}" height="${height}" viewBox="0 0 ${page.width} ${height}" role="img" font-family="Helvetica, Arial, 'Liberation Sans', sans-serif">
<title>${escaped(chart.title)}</title>
${background}${parts}
</svg>
`;
}
