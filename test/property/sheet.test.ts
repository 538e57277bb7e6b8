/** Whatever texts a table has, and however it is written, they are read back unchanged, with their row numbers. */
import { Buffer } from 'node:buffer';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'csv-stringify/sync';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { balance } from '../../src/bulk/actions/balance.ts';
import { type ReadRows, readRows } from '../../src/bulk/read-rows.ts';
import { readSheet, type Sheet } from '../../src/bulk/sheet/sheet.ts';
import { trimmed } from '../../src/model/text.ts';
import { row, text, workbookOf } from '../fixtures/sheets/make/workbook.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { isFull } from '../support/part.ts';

const runs = Number(process.env['PROPERTY_RUNS'] ?? (isFull ? 150 : 40));
const { signal } = new AbortController();

/** Texts as in real cells, and texts that trouble readers. No text has a NUL. */
const texts = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }).map((each) => each.replaceAll('\0', '')),
  fc.string({
    unit: fc.constantFrom('"', ',', ';', '\t', '\n', '\r', ' ', '\u00a0', '\u200b', '\ufeff', '=', '_x0041_', 'a'),
    maxLength: 8,
  }),
);
const tables = fc
  .integer({ min: 2, max: 5 })
  .chain((width) => fc.array(fc.array(texts, { minLength: width, maxLength: width }), { maxLength: 12 }));

const headersOf = (table: readonly string[][]): string[] => (table[0] ?? ['a', 'b']).map((_, at) => `column_${at}`);
const isBlank = (record: readonly string[]): boolean => record.every((each) => trimmed(each) === '');
const rawOf = (sheet: Sheet): { row: number; cells: string[] }[] =>
  [...sheet.rows].map(({ row, cells }) => ({ row, cells: cells.map(({ raw }) => raw) }));

const encodings = {
  'UTF-8': (content: string) => Buffer.from(content),
  'UTF-8 with a mark': (content: string) => Buffer.from(`\ufeff${content}`),
  'UTF-16, little end first': (content: string) => Buffer.from(`\ufeff${content}`, 'utf16le'),
  'UTF-16, big end first': (content: string) => Buffer.from(`\ufeff${content}`, 'utf16le').swap16(),
} as const;

test('a table in CSV of any style is read back unchanged', async () => {
  const folder = temporaryFolder();
  const styles = fc.record({
    delimiter: fc.constantFrom(',', ';', '\t'),
    lineEnd: fc.constantFrom('\n', '\r\n', '\r'),
    quoted: fc.boolean(),
    encoding: fc.constantFrom(...(Object.keys(encodings) as (keyof typeof encodings)[])),
    ending: fc.constantFrom('csv', 'tsv'),
  });
  await fc.assert(
    fc.asyncProperty(tables, styles, async (table, { delimiter, lineEnd, quoted, encoding, ending }) => {
      const content = stringify([headersOf(table), ...table], {
        delimiter,
        record_delimiter: lineEnd,
        quoted,
        // By default it quotes a line break only if it is the record delimiter.
        quoted_match: /[\r\n]/,
      });
      const file = join(folder, `table.${ending}`);
      writeFileSync(file, encodings[encoding](content));
      const sheet = await readSheet(file, { signal });
      expect(rawOf(sheet)).toEqual(table.flatMap((cells, at) => (isBlank(cells) ? [] : [{ row: at + 2, cells }])));
      expect(sheet.columns).toEqual(headersOf(table));
      expect(sheet.delimiter).toBe(delimiter);
    }),
    { numRuns: runs },
  );
});

const grouped = (whole: string, separator: string): string => whole.replace(/\B(?=(?:\d{3})+$)/g, separator);
/** How people write amounts; the input is in cents. */
const styles = {
  plain: (whole: string, cents: string) => `${whole}.${cents}`,
  short: (whole: string, cents: string) => `${whole}.${cents}`.replace(/\.?0+$/, ''),
  comma: (whole: string, cents: string) => `${whole},${cents}`,
  'comma, with points': (whole: string, cents: string) => `${grouped(whole, '.')},${cents}`,
  'point, with commas': (whole: string, cents: string) => `${grouped(whole, ',')}.${cents}`,
} as const;

// proves: amounts-not-guessed
test('amounts that are all written in one style are read as meant, or asked about once, and never guessed', async () => {
  const folder = temporaryFolder();
  const options = { decimals: 2, allowForce: false };
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...(Object.keys(styles) as (keyof typeof styles)[])),
      fc.array(fc.tuple(fc.integer({ min: 1, max: 10 ** 9 }), texts), { minLength: 1, maxLength: 8 }),
      async (style, rows) => {
        const written = rows.map(([cents]) =>
          styles[style](String(Math.floor(cents / 100)), String(cents % 100).padStart(2, '0')),
        );
        const records = rows.map(([, note], at) => [note, '7', 'add', written[at] ?? '']);
        const file = join(folder, 'amounts.csv');
        const content = stringify([['Remark', 'user_id', 'type', 'amount'], ...records], {
          delimiter: ';',
          quoted: true,
        });
        writeFileSync(file, content);
        const sheet = await readSheet(file, { signal });
        const read = readRows(sheet, balance, { ...options, mark: null });
        const meant = rows.map(([cents], at) => ({ row: at + 2, amount: (cents / 100).toFixed(2) }));
        const amountsOf = (each: ReadRows) =>
          [...each.rows].map(({ row, parameters }) => ({ row, amount: parameters['amount'] }));
        expect(read.notes.filter((note) => note.startsWith('unknown'))).toEqual([
          'unknown column was skipped: "Remark"',
        ]);
        const doubtful = written.some((each) => each.includes(','));
        const mark = style.startsWith('comma') ? 'comma' : 'point';
        const outcome = {
          marks: read.question?.readings.map((each) => each.mark) ?? [],
          problems: read.problems.length,
          amounts: amountsOf(read),
        };
        const unread = meant.map(({ row }) => ({ row, amount: undefined }));
        expect(outcome).toEqual(
          doubtful ? { marks: [mark], problems: 1, amounts: unread } : { marks: [], problems: 0, amounts: meant },
        );
        expect(amountsOf(readRows(sheet, balance, { ...options, mark: doubtful ? mark : null }))).toEqual(meant);
      },
    ),
    { numRuns: runs },
  );
});

test('a table in JSON lines is read back unchanged', async () => {
  const folder = temporaryFolder();
  await fc.assert(
    fc.asyncProperty(tables, async (table) => {
      const headers = headersOf(table);
      const line = (cells: readonly string[]): string =>
        JSON.stringify(Object.fromEntries(cells.map((each, at) => [headers[at], each])));
      const file = join(folder, 'table.jsonl');
      const first = line(headers);
      writeFileSync(file, [first, ...table.map(line)].join('\n'));
      const sheet = await readSheet(file, { signal });
      const expected = [headers, ...table].flatMap((cells, at) => (isBlank(cells) ? [] : [{ row: at + 1, cells }]));
      expect(rawOf(sheet)).toEqual(expected);
    }),
    { numRuns: runs },
  );
});

test('a table in a workbook is read back unchanged', { timeout: 60_000 + runs * 100 }, async () => {
  const folder = temporaryFolder();
  // What XML cannot hold, or reads as a line feed, is escaped; so is what looks like an escape.
  const unwritable = (code: number): boolean => (code < 0x20 && code !== 9 && code !== 10) || code >= 0xfffe;
  const escape = (cell: string): string =>
    Array.from(cell.replace(/_(?=x[0-9a-f]{4}_)/gi, '_x005F_'), (each) => {
      const code = each.charCodeAt(0);
      return unwritable(code) ? `_x${code.toString(16).padStart(4, '0')}_` : each;
    }).join('');
  await fc.assert(
    fc.asyncProperty(tables, async (table) => {
      const rows = [headersOf(table), ...table].map((cells, at) =>
        row(at + 1, ...cells.map((each, index) => text(`${'ABCDE'.charAt(index)}${at + 1}`, escape(each)))),
      );
      const file = join(folder, 'table.xlsx');
      writeFileSync(file, workbookOf({ sheets: [{ name: 'Table', rows: rows.join('') }] }));
      const sheet = await readSheet(file, { signal });
      expect(rawOf(sheet)).toEqual(table.flatMap((cells, at) => (isBlank(cells) ? [] : [{ row: at + 2, cells }])));
    }),
    // Each takes a thread of its own.
    { numRuns: Math.ceil(runs / 5) },
  );
});
