/** Records as a table: in a terminal as many columns as there is room for and long text cut, elsewhere everything. */
import { cut, padEnd, padStart, width } from '../data/text-width.ts';
import type { ApiRecord } from '../api/envelope.ts';
import { stringifyExactly } from '../api/exact-json.ts';

/** Columns of the terminal that one value may take. */
const widest = 32;
const gap = '  ';

export interface RecordTable {
  readonly head: readonly string[];
  /** Lines for the records, laid out as the first ones were. */
  lines(records: readonly ApiRecord[]): string[];
  /** Names of the columns for which there was no room. */
  readonly left: readonly string[];
}

/** One line, and nothing that could command the terminal: what a server sends is not ours. */
function shown(value: unknown, most = Infinity): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'string' ? value : stringifyExactly(value);
  return text.slice(0, most).replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]+/gu, ' ');
}

/**
 * Lays out the table by its first records.
 * @param names the columns in their order
 * @param room columns of the terminal; Infinity where nobody looks at one
 */
export function layOut(names: readonly string[], first: readonly ApiRecord[], room: number): RecordTable {
  const columns: { name: string; size: number; right: boolean }[] = [];
  let used = 0;
  const isWhole = room === Infinity;
  const text = (value: unknown) => shown(value, isWhole ? Infinity : 4 * widest);
  for (const name of names) {
    const values = first.map((record) => record[name]);
    const wide = Math.max(width(name), ...values.map((value) => width(text(value))));
    const size = isWhole ? wide : Math.min(widest, wide);
    const wanted = size + (columns.length === 0 ? 0 : gap.length);
    if (columns.length > 0 && used + wanted > room) break;
    used += wanted;
    const filled = values.filter((value) => value !== null && value !== undefined);
    const right = filled.length > 0 && filled.every((value) => ['number', 'bigint'].includes(typeof value));
    columns.push({ name, size, right });
  }
  const line = (texts: readonly string[]) =>
    columns
      .map(({ size, right }, index) => {
        const fitted = isWhole ? (texts[index] ?? '') : cut(texts[index] ?? '', size);
        return right ? padStart(fitted, size) : padEnd(fitted, size);
      })
      .join(gap)
      .trimEnd();
  return {
    head: [line(columns.map(({ name }) => name)), columns.map(({ size }) => '-'.repeat(size)).join(gap)],
    lines: (records) => records.map((record) => line(columns.map(({ name }) => text(record[name])))),
    left: names.slice(columns.length),
  };
}

/** One record with a line for each of its values; objects and arrays as JSON. */
export function recordLines(record: ApiRecord): string[] {
  const names = Object.keys(record);
  const size = Math.min(widest, Math.max(0, ...names.map((name) => width(shown(name)))));
  return names.flatMap((name) => {
    const value = record[name];
    const long = typeof value === 'string' ? value.split(/\r?\n/) : [shown(value)];
    const [head = '', ...more] = long.map((each) => each.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]+/gu, ' '));
    return [
      `${padEnd(shown(name), size)}${gap}${head}`.trimEnd(),
      ...more.map((each) => `${' '.repeat(size)}${gap}${each}`),
    ];
  });
}
