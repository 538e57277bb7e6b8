/** Rows of a sheet as XML, and what the sheet has to know of them. */
import type { ResultColumn, Row } from '../../store/reading-types.ts';
import { plainText } from '../../store/files/csv.ts';
import type { ColumnKind } from '../column-kind.ts';
import type { RowEncoder } from '../encoding.ts';
import { cellElement } from './cells.ts';

/** Rows of a sheet besides its heading. */
export const rowsOfSheet = 1_048_575;

/** The column as spreadsheets name it: A, B, … Z, AA. */
export function columnLetters(index: number): string {
  const last = String.fromCharCode(65 + (index % 26));
  return index < 26 ? last : columnLetters(Math.floor(index / 26) - 1) + last;
}

/** Rows of the beginning that the widths of the columns are taken from. */
const measuredRows = 100;
const widest = 60;
const narrowest = 8;
/** `2026-03-11 10:00:00`, however many digits the API writes. */
const timeWidth = 19;

/** Widths, in characters, that show the heading and the rows. */
export function widthsOf(
  columns: readonly ResultColumn[],
  kinds: readonly ColumnKind[],
  rows: readonly Row[],
): readonly number[] {
  return columns.map(({ name }, index) => {
    const lengths = rows.slice(0, measuredRows).map((row) => {
      const cell = row[index] ?? null;
      if (cell === null) return 0;
      if (kinds[index] === 'time') return timeWidth;
      return (typeof cell === 'string' ? cell : plainText(cell)).length;
    });
    return Math.min(widest, Math.max(narrowest, name.length, ...lengths) + 2);
  });
}

export function sheetEncoder(
  kinds: readonly ColumnKind[],
  columns: readonly ResultColumn[],
  sheetRows: number,
): RowEncoder {
  const letters = columns.map((_, index) => columnLetters(index));
  const mayBeTime = kinds.map((kind) => kind === 'time' || kind === 'open');
  const encoder = new TextEncoder();
  let text = '';
  let rows = 0;
  let cut = 0;
  let widths: readonly number[] | undefined;
  const onCut = () => void (cut += 1);

  return {
    add: (batch, first) => {
      if (first === 0) widths = widthsOf(columns, kinds, batch);
      // After the heading; no batch reaches over the end of a sheet.
      let number = (first % sheetRows) + 2;
      for (const row of batch) {
        text += `<row r="${number}">`;
        for (const [index, cell] of row.entries()) {
          if (cell !== null) text += cellElement(`${letters[index]}${number}`, cell, mayBeTime[index] === true, onCut);
        }
        text += '</row>';
        number += 1;
      }
      rows += batch.length;
    },
    take: () => {
      const piece = { bytes: encoder.encode(text), rows, cut, ...(widths === undefined ? {} : { widths }) };
      text = '';
      rows = 0;
      cut = 0;
      widths = undefined;
      return piece;
    },
  };
}
