/** JSON lines: an object a line, its names the columns. Numbers are read digit for digit, as from any other sheet. */
import type { Buffer } from 'node:buffer';
import { Budget } from './budget.ts';
import { emptyCell, trimmed } from './cell.ts';
import { decodeText } from './decode.ts';
import { type Member, membersOf } from './json-line.ts';
import { limits } from './limits.ts';
import { refusal } from './refusal.ts';
import { type SheetContent, SheetRows } from './rows.ts';
import type { SheetCell } from './sheet.ts';
import { shown } from './shown.ts';

const oneAnObject = 'Each line must be one JSON object, such as {"user_id": 1, "type": "add", "amount": "5.00"}.';

function membersOfLine(file: string, line: string, row: number): readonly Member[] {
  let members: readonly Member[] | undefined;
  try {
    members = membersOf(line);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw refusal(file, `row ${row} is not JSON: ${shown(line)}`, oneAnObject, error);
  }
  if (members === undefined) throw refusal(file, `row ${row} is not a JSON object: ${shown(line)}`, oneAnObject);
  return members;
}

/**
 * Rows are lines, and the first is row 1: there is no header. Columns are in the order in which names first come up.
 * @throws UsageError where the bytes are not text, or a line is not a JSON object
 */
export function readJsonl(file: string, bytes: Buffer, signal: AbortSignal): SheetContent {
  const columns = new Map<string, number>();
  const lines: { readonly row: number; readonly members: readonly Member[] }[] = [];
  for (const [at, line] of decodeText(file, bytes).split('\n').entries()) {
    signal.throwIfAborted();
    if (line.length > limits.rowCharacters) {
      throw refusal(file, `row ${at + 1} has more than ${limits.rowCharacters} characters`, oneAnObject);
    }
    const members = line.trim() === '' ? [] : membersOfLine(file, line, at + 1);
    for (const { name } of members) {
      const column = trimmed(name);
      if (!columns.has(column)) columns.set(column, columns.size);
    }
    if (columns.size > limits.columns) throw refusal(file, `it has more than ${limits.columns} columns`, oneAnObject);
    lines.push({ row: at + 1, members });
  }
  if (columns.size === 0) throw refusal(file, 'it is empty', oneAnObject);
  const rows = new SheetRows([...columns.keys()], new Budget(file));
  for (const { row, members } of lines) {
    const cells: SheetCell[] = [];
    const seen = new Set<string>();
    for (const { name, cell } of members) {
      const column = trimmed(name);
      if (seen.has(column))
        rows.addProblem(row, column, `${shown(column)} stands there more than once; keep one of them`);
      seen.add(column);
      cells[columns.get(column) ?? 0] = cell;
    }
    rows.add(
      row,
      Array.from(cells, (each: SheetCell | undefined) => each ?? emptyCell),
    );
  }
  return rows.finish({ delimiter: null, sheet: null, notes: [] });
}
