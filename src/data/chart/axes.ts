/** Marks on the axes of a picture, and their words. */
import { scaleLinear, scaleUtc } from 'd3-scale';
import { dayMs, hourMs, timestampOf } from '../../model/time.ts';
import type { Chart, ChartAxis } from './chart.ts';

/** The least and the greatest; not by Math.min, which takes only so many. */
function extentOf(values: readonly number[]): [number, number] {
  return values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity] as [
    number,
    number,
  ]);
}

/** A value axis from zero to beyond the last value, or from below zero. */
export function valueScale({ series }: Pick<Chart, 'series'>, ticks: number) {
  const values = series.flatMap(({ values }) => values.filter((value) => value !== null));
  const [low, high] = extentOf([0, ...values]);
  const scale = scaleLinear([low, low === high ? 1 : high], [0, 1]).nice(ticks);
  const format = scale.tickFormat(ticks);
  // Marks between two whole numbers would be read as counts that there cannot be.
  const isWhole = values.every(Number.isInteger);
  const marks = scale.ticks(ticks).filter((mark) => !isWhole || Number.isInteger(mark));
  return { scale, marks: marks.map((value) => ({ value, label: format(value) })) };
}

export interface Mark {
  readonly at: number;
  readonly label: string;
}

/** The places of an x axis of time or numbers, from 0 to 1, and its marks, about so many. */
export function placeScale(
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

/** As much of the time as tells the marks apart. */
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

/** A value as a person reads it: 12,345.67 */
export function valueLabel(value: number): string {
  return numbers.format(value);
}
