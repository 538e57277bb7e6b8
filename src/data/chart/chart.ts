/** Pictures of a result: what is requested, what is drawn, and the way from rows to it. */
import type { ChartKind, ReportChart } from '../reports/reports.ts';
import { suggestion, UsageError } from '../../model/errors.ts';
import { parseDay, parseInstant, startOfDay } from '../../model/time.ts';
import { plainText } from '../../store/files/csv.ts';
import type { Cell, Row } from '../../store/reading-types.ts';

/** What is to be drawn of a result, by the names of its columns. */
export interface ChartRequest extends ReportChart {
  readonly title: string;
}

export interface ChartSeries {
  readonly name: string;
  /** One for each place on the x axis; null where there is none. */
  readonly values: readonly (number | null)[];
}

export interface Chart {
  readonly kind: ChartKind;
  readonly title: string;
  readonly x: ChartAxis;
  readonly series: readonly ChartSeries[];
}

/** Each place of the x axis; `at`, in ms since 1970 for times, is null where places are only named. */
export interface ChartAxis {
  readonly name: string;
  readonly kind: 'time' | 'number' | 'label';
  readonly places: readonly { readonly label: string; readonly at: number | null }[];
}

/** More bars or series than this look alike, and more points cannot be seen. */
export const mostRows: Readonly<Record<ChartKind, number>> = { bar: 200, line: 20_000 };
const mostSeries = 7;

/** The picture of the rows. Throws a UsageError where the request does not fit them. */
export function chartOf(
  columns: readonly { readonly name: string }[],
  rows: readonly Row[],
  request: ChartRequest,
): Chart {
  const { kind, title } = request;
  if (rows.length === 0) throw new UsageError('there is nothing to draw: the result has no rows');
  if (rows.length > mostRows[kind]) throw tooManyRows(kind);
  if (request.y.length > mostSeries) {
    throw new UsageError(
      `a picture shows ${mostSeries} columns of numbers at most, and this one has ${request.y.length}`,
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
  const x = axisOf(request.x, cellsOf(request.x));
  const series = request.y.map((name) => ({ name, values: numbersOf(name, cellsOf(name)) }));
  // A line goes on in time, in whatever order its points came. Bars stand in the order of the rows.
  return kind === 'line' && x.kind !== 'label' ? inOrder({ kind, title, x, series }) : { kind, title, x, series };
}

export function tooManyRows(kind: ChartKind): UsageError {
  const things = kind === 'bar' ? 'bars' : 'points';
  return new UsageError(
    `a picture shows ${mostRows[kind].toLocaleString('en')} ${things} at most, and there are more rows`,
    { advice: 'Put rows together with GROUP BY, or take the first with ORDER BY … LIMIT.' },
  );
}

function inOrder({ x, series, ...rest }: Chart): Chart {
  const order = x.places
    .map(({ at }, index) => ({ at: at ?? 0, index }))
    .sort((a, b) => a.at - b.at)
    .map(({ index }) => index);
  const sorted = <T>(list: readonly T[]): T[] => order.flatMap((index) => list.slice(index, index + 1));
  return {
    ...rest,
    x: { ...x, places: sorted(x.places) },
    series: series.map(({ name, values }) => ({ name, values: sorted(values) })),
  };
}

function axisOf(name: string, cells: readonly Cell[]): ChartAxis {
  const labels = cells.map(labelOf);
  const times = cells.map(timeOf);
  if (times.every((at) => at !== null)) {
    return { name, kind: 'time', places: times.map((at, index) => ({ at, label: labels[index] ?? '' })) };
  }
  if (cells.every(isNumber)) {
    return {
      name,
      kind: 'number',
      places: cells.map((cell, index) => ({ at: Number(cell), label: labels[index] ?? '' })),
    };
  }
  return { name, kind: 'label', places: labels.map((label) => ({ at: null, label })) };
}

function labelOf(cell: Cell): string {
  if (cell === null) return '(none)';
  return typeof cell === 'string' ? cell.replaceAll(/\s+/g, ' ').trim() : plainText(cell);
}

function isNumber(cell: Cell): cell is number | bigint {
  return typeof cell === 'bigint' || (typeof cell === 'number' && Number.isFinite(cell));
}

/** `2026`, `2026-03`, `2026-03-11` or an instant, in ms since 1970; null where the cell is none of them. */
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
      `the picture needs numbers in the column "${name}", and one of its values is ${shortly(cell)}`,
      { advice: 'CAST(… AS REAL) makes a number of text.' },
    );
  });
}

function shortly(cell: Cell): string {
  const label = labelOf(cell);
  return `"${label.length > 40 ? `${label.slice(0, 40)}…` : label}"`;
}

/** Numbers against the first time as a line, else against the first other column as bars. Throws a UsageError. */
export function guessChart(columns: readonly { readonly name: string }[], rows: readonly Row[]): ChartRequest {
  const facts = columns.map(({ name }, index) => {
    const cells = rows.map((row) => row[index] ?? null).filter((cell) => cell !== null);
    return {
      name,
      isNumber: cells.length > 0 && cells.every(isNumber),
      isTime: cells.length > 0 && cells.every((cell) => timeOf(cell) !== null),
    };
  });
  const numbers = facts.filter((fact) => fact.isNumber);
  if (rows.length > 0 && numbers.length === 0) {
    throw new UsageError('there is nothing to draw: no column of the result holds numbers', {
      advice: 'Select a label and a number, as in SELECT status, count(*) AS users FROM users GROUP BY status.',
    });
  }
  const others = facts.filter((fact) => !fact.isNumber);
  const x = others.find(({ isTime }) => isTime) ?? others[0] ?? facts[0];
  const y = numbers.filter((fact) => fact !== x).slice(0, mostSeries);
  if (rows.length > 0 && y.length === 0) {
    throw new UsageError('there is nothing to draw a number against: the result has one column', {
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
