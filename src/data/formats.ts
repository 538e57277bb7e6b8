/** The names of the formats, apart from the code that writes them, which the command line need not load. */

const textFormats = ['csv', 'tsv', 'json', 'jsonl'] as const;
export type TextFormat = (typeof textFormats)[number];

export const exportFormats = [...textFormats, 'parquet', 'xlsx'] as const;
export type ExportFormat = (typeof exportFormats)[number];

export const contentTypes: Readonly<Record<ExportFormat, string>> = {
  csv: 'text/csv; charset=utf-8',
  tsv: 'text/tab-separated-values; charset=utf-8',
  json: 'application/json',
  jsonl: 'application/jsonl',
  parquet: 'application/vnd.apache.parquet',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
};

export const queryFormats = ['table', ...textFormats] as const;
export type QueryFormat = (typeof queryFormats)[number];

/** The end of the name of a compressed file. */
export const gzipEnding = '.gz';

/** Whether files of the format are binary and already compressed. */
export function isPacked(format: ExportFormat): format is Exclude<ExportFormat, TextFormat> {
  return format === 'parquet' || format === 'xlsx';
}

/** Reads format and compression from the end of a file's name. An `ending` without a `format` is an unknown one. */
export function formatOfName(name: string): {
  readonly ending: string | undefined;
  readonly format: ExportFormat | undefined;
  readonly isGzip: boolean;
} {
  const lower = name.toLowerCase();
  const isGzip = lower.endsWith(gzipEnding);
  const inner = isGzip ? lower.slice(0, -gzipEnding.length) : lower;
  const ending = /[^/]\.[^./{}]+$/.exec(inner)?.[0].slice(1);
  return { ending, format: exportFormats.find((each) => ending === `.${each}`), isGzip };
}
