/** Pictures of a result: the request, the data to draw, and how rows become that data. */
import type { ChartKind, ReportChart } from '../reports/reports.ts';
import { suggestion, UsageError } from '../../model/errors.ts';
import { parseDay, parseInstant, startOfDay, timestampOf } from '../../model/time.ts';
import { plainText } from '../csv.ts';
import type { Cell, Row } from '../reading-types.ts';

/** What to draw, by the names of the result's columns. */
export interface ChartRequest extends ReportChart {
  readonly title: string;
}

interface ChartSeries {
  readonly name: string;
  /** One value for each place on the x axis; null if there is none. */
  readonly values: readonly (number | null)[];
}

export interface Chart {
  readonly kind: ChartKind;
  readonly title: string;
  readonly x: ChartAxis;
  readonly series: readonly ChartSeries[];
}

interface ChartPlace {
  readonly label: string;
  readonly at: number | null;
  /** It is a day, month or year that is not over. */
  readonly isOpen: boolean;
}

export interface ChartAxis {
  readonly name: string;
  readonly kind: 'time' | 'number' | 'label';
  /** `at` is the number, or the time in ms since 1970; null for labels. */
  readonly places: readonly ChartPlace[];
}

/** More bars or series could not be told apart, and more points could not be seen. */
export const mostRows: Readonly<Record<ChartKind, number>> = { bar: 200, line: 20_000 };
const mostSeries = 7;

/** Returns the data to draw. `now`, in ms since 1970, says which day, month or year is not over. Throws a UsageError if the request does not fit the rows. */
export function chartOf(
  columns: readonly { readonly name: string }[],
  rows: readonly Row[],
  request: ChartRequest,
  now: number,
): Chart {
  const { kind, title } = request;
  if (rows.length === 0) throw new UsageError('there is nothing to draw: the result has no rows');
  if (rows.length > mostRows[kind]) throw tooManyRows(kind);
  if (request.y.length > mostSeries) {
    throw new UsageError(
      `a picture shows at most ${mostSeries} columns of numbers, and this one has ${request.y.length}`,
      { advice: 'Select fewer.' },
    );
  }
  const names = columns.map(({ name }) => name);
  const cellsOf = (name: string): Cell[] => {
    const index = names.indexOf(name);
    if (index !== -1) return rows.map((row) => row[index] ?? null);
    throw new UsageError(`the picture needs a column "${name}", and the result has none`, {
      advice: suggestion(name, names),
    });
  };
  const x = axisOf(request.x, cellsOf(request.x), now);
  const series = request.y.map((name) => ({ name, values: numbersOf(name, cellsOf(name)) }));
  // A line runs along its axis, whatever the order of the rows. Bars keep that order.
  return kind === 'line' && x.kind !== 'label' ? inOrder({ kind, title, x, series }) : { kind, title, x, series };
}

export function tooManyRows(kind: ChartKind): UsageError {
  const things = kind === 'bar' ? 'bars' : 'points';
  return new UsageError(
    `a picture shows at most ${mostRows[kind].toLocaleString('en')} ${things}, and there are more rows`,
    { advice: 'Combine rows with GROUP BY, or take the first with ORDER BY … LIMIT.' },
  );
}

function inOrder({ x, series, ...rest }: Chart): Chart {
  const at = (index: number): number => x.places[index]?.at ?? 0;
  const order = [...x.places.keys()].sort((a, b) => at(a) - at(b));
  const sorted = <T>(list: readonly T[]): T[] => order.flatMap((index) => list.slice(index, index + 1));
  return {
    ...rest,
    x: { ...x, places: sorted(x.places) },
    series: series.map(({ name, values }) => ({ name, values: sorted(values) })),
  };
}

function axisOf(name: string, cells: readonly Cell[], now: number): ChartAxis {
  const labels = cells.map(labelOf);
  const times = cells.map(timeOf);
  if (times.every((at) => at !== null)) {
    return { name, kind: 'time', places: times.map((at, index) => placeOf(labels[index] ?? '', at)) };
  }
  if (cells.every(isNumber)) {
    return {
      name,
      kind: 'number',
      places: cells.map((cell, index) => ({ at: Number(cell), label: labels[index] ?? '', isOpen: false })),
    };
  }
  return { name, kind: 'label', places: labels.map((label) => ({ at: null, label, isOpen: false })) };

  function placeOf(label: string, at: number): ChartPlace {
    // A day, month or year is as long as its text: the beginning of every time in it.
    const isOpen = /^\d{4}(?:-\d\d){0,2}$/.test(label) && timestampOf(now).startsWith(label);
    return { label, at, isOpen };
  }
}

function labelOf(cell: Cell): string {
  if (cell === null) return '(none)';
  return typeof cell === 'string' ? cell.replaceAll(/\s+/g, ' ').trim() : plainText(cell);
}

function isNumber(cell: Cell): cell is number | bigint {
  return typeof cell === 'bigint' || (typeof cell === 'number' && Number.isFinite(cell));
}

/** Reads `2026`, `2026-03`, `2026-03-11` or an instant, in ms since 1970; null for anything else. */
function timeOf(cell: Cell): number | null {
  if (typeof cell !== 'string') return null;
  const day = parseDay(/^\d{4}$/.test(cell) ? `${cell}-01-01` : /^\d{4}-\d{2}$/.test(cell) ? `${cell}-01` : cell);
  return day === undefined ? (parseInstant(cell) ?? null) : startOfDay(day);
}

function numbersOf(name: string, cells: readonly Cell[]): (number | null)[] {
  return cells.map((cell) => {
    if (cell === null) return null;
    if (isNumber(cell)) return Number(cell);
    throw new UsageError(
      `the picture needs numbers in the column "${name}", and one of its values is ${quoted(cell)}`,
      { advice: 'CAST(… AS REAL) turns text into a number.' },
    );
  });
}

function quoted(cell: Cell): string {
  const label = labelOf(cell);
  return `"${label.length > 40 ? `${label.slice(0, 40)}…` : label}"`;
}

/** Chooses a line if a column holds times, with the numbers over the first such; else bars by the first other column. Throws a UsageError. */
export function guessChart(columns: readonly { readonly name: string }[], rows: readonly Row[]): ChartRequest {
  const candidates = columns.map(({ name }, index) => {
    const cells = rows.map((row) => row[index] ?? null).filter((cell) => cell !== null);
    return {
      name,
      isNumber: cells.length > 0 && cells.every(isNumber),
      isTime: cells.length > 0 && cells.every((cell) => timeOf(cell) !== null),
    };
  });
  const numbers = candidates.filter(({ isNumber }) => isNumber);
  if (rows.length > 0 && numbers.length === 0) {
    throw new UsageError('there is nothing to draw: no column of the result holds numbers', {
      advice: 'Select a label and a number, as in SELECT status, count(*) AS users FROM users GROUP BY status.',
    });
  }
  const others = candidates.filter(({ isNumber }) => !isNumber);
  const x = others.find(({ isTime }) => isTime) ?? others[0] ?? candidates[0];
  const y = numbers.filter((candidate) => candidate !== x).slice(0, mostSeries);
  if (rows.length > 0 && y.length === 0) {
    throw new UsageError('there is nothing to draw the numbers by: the result has only one column', {
      advice: 'Select a label and a number, as in SELECT status, count(*) AS users FROM users GROUP BY status.',
    });
  }
  const names = y.map(({ name }) => name);
  return {
    kind: x?.isTime === true ? 'line' : 'bar',
    x: x?.name ?? '',
    y: names,
    title: `${names.join(', ')} by ${x?.name ?? ''}`,
  };
}
