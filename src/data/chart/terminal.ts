/** Draws a picture for a terminal: bars of blocks, lines of box-drawing characters. */
import type { Chart, ChartSeries } from './chart.ts';
import { placeScale, valueLabel, valueScale } from './svg.ts';
import { cut, padEnd, padStart, visible, width } from '../text-table.ts';
import { styleMark } from '../../model/text.ts';

/** From 0 to 1, from the lower left; null for a gap. */
interface PlotPoint {
  readonly x: number;
  readonly y: number | null;
}

/** Returns the rows of the plot, top first. @param points sorted by x */
function plotLines(points: readonly PlotPoint[], columns: number, rows: number): string[] {
  const heights = heightsOf(points, columns).map((y) => (y === null ? null : Math.round((1 - y) * (rows - 1))));
  const cells = Array.from({ length: rows }, () => Array.from({ length: columns }, () => ' '));
  const put = (row: number, column: number, character: string): void => {
    const line = cells[row];
    if (line !== undefined) line[column] = character;
  };
  for (const [column, row] of heights.entries()) {
    if (row === null) continue;
    const before = column === 0 ? null : (heights[column - 1] ?? null);
    if (before === null || before === row) {
      put(row, column, '─');
      continue;
    }
    const falls = row > before;
    put(before, column, falls ? '╮' : '╯');
    put(row, column, falls ? '╰' : '╭');
    for (let between = Math.min(row, before) + 1; between < Math.max(row, before); between += 1) {
      put(between, column, '│');
    }
  }
  return cells.map((line) => line.join(''));
}

/** Returns the height of each column: the mean of its points, or a value interpolated between its neighbours; null within a gap. */
function heightsOf(points: readonly PlotPoint[], columns: number): (number | null)[] {
  const found = Array.from({ length: columns }, () => ({ sum: 0, count: 0, isGap: false }));
  for (const { x, y } of points) {
    const cell = found[Math.round(x * (columns - 1))];
    if (cell === undefined) continue;
    if (y === null) cell.isGap = true;
    else Object.assign(cell, { sum: cell.sum + y, count: cell.count + 1 });
  }
  const known = found.map(({ sum, count }) => (count === 0 ? null : sum / count));
  let before = -1;
  const heights = [...known];
  for (const [column, y] of known.entries()) {
    if (y === null) continue;
    const start = known[before] ?? null;
    if (start !== null && !found.slice(before + 1, column).some(({ isGap }) => isGap)) {
      for (let between = before + 1; between < column; between += 1) {
        heights[between] = start + ((y - start) * (between - before)) / (column - before);
      }
    }
    before = column;
  }
  return heights;
}

export interface TerminalRoom {
  readonly columns: number;
  readonly rows: number;
  /** The secret word of our style marks (`styleMark`); undefined if the terminal shows no colours. */
  readonly style: string | undefined;
}

/** A narrower picture could not be read. */
const leastColumns = 40;

/** The lines of the picture, each without its line break. */
export function* chartText(chart: Chart, room: TerminalRoom): Generator<string> {
  const columns = Math.max(leastColumns, room.columns);
  yield painted(visible(chart.title), '1', room);
  if (chart.kind === 'bar') {
    yield* bars(chart, { ...room, columns });
    return;
  }
  // Below each other, each with its own scale, so that none hides another and no colours are needed.
  const height = Math.max(4, Math.min(14, Math.floor((room.rows - 3) / chart.series.length) - 4));
  for (const series of chart.series) {
    yield '';
    if (chart.series.length > 1) yield painted(visible(series.name), '36', room);
    yield* lines(chart, series, { ...room, columns }, height);
  }
}

function painted(text: string, code: string, { style }: TerminalRoom): string {
  return style === undefined ? text : `${styleMark(code, style)}${text}${styleMark(0, style)}`;
}

const eighths = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'] as const;

function* bars({ x, series }: Chart, room: TerminalRoom): Generator<string> {
  const names = x.places.map(({ label }) => cut(visible(label), Math.floor(room.columns / 3)));
  const values = series.map((each) => each.values.map((value) => (value === null ? '' : valueLabel(value))));
  const nameWidth = Math.max(...names.map(width));
  const seriesWidth =
    series.length === 1 ? 0 : Math.max(...series.map(({ name }) => Math.min(20, width(visible(name)))));
  const valueWidth = Math.max(...values.flat().map(width));
  const used = nameWidth + valueWidth + 4 + (seriesWidth === 0 ? 0 : seriesWidth + 2);
  const { scale } = valueScale({ series }, 6);
  const length = Math.max(8, room.columns - used);
  for (const [place, name] of names.entries()) {
    for (const [index, each] of series.entries()) {
      const value = each.values[place] ?? null;
      const bar = value === null ? '' : barOf(scale(0) * length, scale(value) * length);
      const own = seriesWidth === 0 ? '' : `${padEnd(cut(visible(each.name), seriesWidth), seriesWidth)}  `;
      const label = `${padEnd(index === 0 ? name : '', nameWidth)}  ${own}`;
      const number = padStart(values[index]?.[place] ?? '', valueWidth);
      yield `${label}${number}  ${painted(bar, ['34', '33', '36', '35', '32', '31', '37'][index] ?? '34', room)}`.trimEnd();
    }
  }
}

/** Draws a bar. @param zero the column of the value 0 @param end the column of the value */
function barOf(zero: number, end: number): string {
  // Only whole blocks here: Unicode has blocks that are partly filled from the left, but none from the right.
  if (end < zero) return `${' '.repeat(Math.round(end))}${'█'.repeat(Math.max(1, Math.round(zero) - Math.round(end)))}`;
  const start = Math.round(zero);
  const parts = Math.round((end - start) * 8);
  if (parts <= 0) return end > zero ? `${' '.repeat(start)}▏` : '';
  return `${' '.repeat(start)}${'█'.repeat(Math.floor(parts / 8))}${eighths[parts % 8] ?? ''}`;
}

function* lines({ x }: Chart, series: ChartSeries, room: TerminalRoom, height: number): Generator<string> {
  const { scale, marks } = valueScale({ series: [series] }, Math.max(2, Math.floor(height / 3)));
  const labelWidth = Math.max(...marks.map(({ label }) => label.length));
  const length = room.columns - labelWidth - 3;
  const places = x.kind === 'label' ? undefined : placeScale(x, Math.max(2, Math.floor(length / 18)));
  const last = Math.max(1, x.places.length - 1);
  const at = (index: number): number => places?.scale(x.places[index]?.at ?? 0) ?? index / last;
  const plot = plotLines(
    series.values.map((value, index) => ({ x: at(index), y: value === null ? null : scale(value) })),
    length,
    height,
  );
  const rowOf = (value: number): number => Math.round((1 - scale(value)) * (height - 1));
  for (const [row, text] of plot.entries()) {
    const mark = marks.find(({ value }) => rowOf(value) === row);
    yield `${padStart(mark?.label ?? '', labelWidth)} ${mark === undefined ? '│' : '┤'} ${painted(text, '34', room)}`.trimEnd();
  }
  yield `${' '.repeat(labelWidth)} └${'─'.repeat(length + 1)}`;
  const labels =
    places === undefined
      ? x.places.map(({ label }, index) => ({ at: at(index), label: cut(visible(label), 18) }))
      : places.marks.map((mark) => ({ at: places.scale(mark.at), label: mark.label }));
  yield `${' '.repeat(labelWidth + 3)}${labelsBelow(labels, length)}`;
}

/** Writes as many labels as fit, each centred below its place. */
function labelsBelow(labels: readonly { readonly at: number; readonly label: string }[], length: number): string {
  let text = '';
  for (const { at, label } of labels) {
    const centred = Math.round(at * (length - 1) - width(label) / 2);
    const start = Math.max(0, Math.min(centred, length - width(label)));
    if (text !== '' && start < width(text) + 2) continue;
    text = padEnd(text, start) + label;
  }
  return text;
}
