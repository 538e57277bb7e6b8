/**
 * A whole table as lines of JSON out of SQLite, in half the time that we need to make them of cells. A row that SQLite would write in
 * another way is made of its cells, so the bytes are the same.
 */
import { Buffer, isUtf8 } from 'node:buffer';
import type { Relation, ResultColumn } from './reading-types.ts';
import type { Snapshot } from './reading.ts';
import { quoteName, quoteText } from '../store/schema.ts';
import { readingPace } from './reading-pace.ts';
import { realSql } from './table-csv.ts';
import { jsonLines, mayHoldJson } from './text-lines.ts';

/** Yields every row of the table, in order, as lines. */
export function* jsonTableLines(
  snapshot: Snapshot,
  relation: Relation,
  names: readonly string[],
): Generator<{ readonly lines: Uint8Array; readonly rows: number }> {
  const cells = snapshot.selectRanges(relation, names);
  const write = jsonLines(cells.columns);
  const line = lineSql(relation, cells.columns);
  const lines = snapshot.selectRanges(relation, names, [`CAST(group_concat(${line}, '') AS BLOB)`, 'count(*)']);
  const pace = readingPace();
  for (const range of snapshot.ranges(relation, pace.rows)) {
    const [[made, count] = []] = lines.rowsIn(range);
    if (!(made instanceof Buffer)) continue;
    // Text that is not UTF-8 is written with the signs that stand for damaged characters.
    const bytes = isUtf8(made)
      ? withOddLines(made, (row) => write(cells.rowIn(range, row)))
      : Buffer.from(write(cells.rowsIn(range)));
    const rows = Number(count);
    pace.add(rows, bytes.length);
    yield { lines: bytes, rows };
  }
}

/** Stands in a line that must be made of cells. SQLite escapes this character in every text. */
const mark = 'char(0)';
const markByte = 0;
const newlineByte = 10;

function withOddLines(made: Buffer, lineOf: (row: number) => string): Buffer {
  if (!made.includes(markByte)) return made;
  const pieces: Buffer[] = [];
  for (let from = 0, row = 0; from < made.length; row += 1) {
    const end = made.indexOf(newlineByte, from) + 1;
    const line = made.subarray(from, end);
    pieces.push(line.includes(markByte) ? Buffer.from(lineOf(row)) : line);
    from = end;
  }
  return Buffer.concat(pieces);
}

/** Returns the line of a row, with its line break, in SQL of SQLite. */
function lineSql(relation: Relation, columns: readonly ResultColumn[]): string {
  const pieces = columns.map((column, index) => {
    const type = relation.columns.find(({ name }) => name === column.name)?.type.toUpperCase() ?? '';
    const key = `${index === 0 ? '{' : ','}${JSON.stringify(column.name)}:`;
    return `${quoteText(key)} || ${valueSql(column, type)}`;
  });
  return `${pieces.join(' || ')} || '}' || char(10)`;
}

function valueSql(column: ResultColumn, type: string): string {
  const cell = quoteName(column.name);
  if (type !== 'TEXT') return `ifnull(${type === 'REAL' ? realSql(cell, mark) : cell}, 'null')`;
  if (!mayHoldJson(column)) return `json_quote(${cell})`;
  // Whether text that SQLite does not take for JSON is some, and its line breaks, are left to the writer by cells.
  return (
    `CASE WHEN ${cell} IS NULL OR substr(${cell}, 1, 1) NOT IN ('{', '[') THEN json_quote(${cell}) ` +
    `WHEN json_valid(${cell}) AND NOT instr(${cell}, char(10)) AND NOT instr(${cell}, char(13)) THEN ${cell} ELSE ${mark} END`
  );
}
