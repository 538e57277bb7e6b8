/** Tables of `bulk` as files: CSV that every spreadsheet program reads as UTF-8, and Excel workbooks. */
import type { Table, TableCell, TableFormat, TableWriter } from '../model/table.ts';
import { fileChunks } from './export.ts';
import { rowsSource } from './source.ts';
import { guardedText } from '../store/files/csv.ts';
import type { Cell, Row } from '../store/reading-types.ts';

/** Columns whose text is a number where it looks like one, so that a workbook can sum them. */
const numeric = new Set(['user_id', 'amount', 'expected_balance', '_balance_before', '_balance_after', '_change']);
const plainNumber = /^-?\d+(?:\.\d+)?$/;
/** A spreadsheet keeps 15 digits, and puts zeros in the place of the others. */
const mostDigits = 15;

/** @param onWarning called with what the person should know of the file */
export function tableWriter(
  format: TableFormat,
  signal: AbortSignal,
  onWarning: (warning: string) => void,
): TableWriter {
  const cell = format === 'csv' ? csvCell : sheetCell;
  return {
    format,
    chunks: ({ name, columns, rows }: Table) => {
      const headings = columns.map((column) => ({
        name: format === 'csv' ? guardedText(column) : column,
        table: null,
        origin: null,
      }));
      const source = rowsSource(name, {
        columns: headings,
        batches: (wanted) => batches(rows, wanted, (cells) => cells.map((each, at) => cell(each, columns[at] ?? ''))),
      });
      // Guarded here, cell by cell: amounts of a file are text, and none for a spreadsheet to run.
      const form = { format, raw: true, compression: null, bom: true };
      return fileChunks(source, form, { signal, onRows: () => {}, onWarning });
    },
  };
}

function csvCell(cell: TableCell): Cell {
  if (typeof cell !== 'string') return cell;
  if (cell === '') return null;
  return plainNumber.test(cell) ? cell : guardedText(cell);
}

function sheetCell(cell: TableCell, column: string): Cell {
  if (typeof cell !== 'string') return cell;
  if (cell === '') return null;
  const isNumber = numeric.has(column.toLowerCase()) && plainNumber.test(cell);
  return isNumber && cell.replaceAll(/\D/g, '').length <= mostDigits ? Number(cell) : cell;
}

async function* batches(
  rows: Table['rows'],
  wanted: () => number,
  made: (cells: readonly TableCell[]) => Cell[],
): AsyncGenerator<Row[], undefined> {
  let batch: Row[] = [];
  let size = wanted();
  for await (const row of rows) {
    batch.push(made(row));
    if (batch.length < size) continue;
    yield batch;
    batch = [];
    size = wanted();
  }
  if (batch.length > 0) yield batch;
}
