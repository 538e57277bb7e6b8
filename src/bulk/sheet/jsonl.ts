/** JSON lines: one object on each line, with the columns as its names. Numbers are read digit for digit, as from any sheet. */
import type { Buffer } from 'node:buffer';
import { setImmediate } from 'node:timers/promises';
import { Budget, limits, refusal } from './limits.ts';
import { decodeText, emptyCell, PackedRows, type SheetContent, SheetRows, shown, textCell, trimmed } from './rows.ts';
import type { SheetCell } from './sheet.ts';

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

/** How many lines are read before other work gets its turn. */
const linesATurn = 1_000;

/** Each line is a row, and the first is row 1. Columns are in the order in which their names first appear. */
export async function readJsonl(file: string, bytes: Buffer, signal: AbortSignal): Promise<SheetContent> {
  const takeTurns = async (line: number): Promise<void> => {
    if (line % linesATurn !== 0) return;
    await setImmediate();
    signal.throwIfAborted();
  };
  const columns = new Map<string, number>();
  const lines = new PackedRows<{ readonly row: number; readonly members: readonly Member[] }>();
  for (const [at, line] of decodeText(file, bytes).split('\n').entries()) {
    await takeTurns(at);
    if (line.length > limits.rowCharacters) {
      throw refusal(file, `row ${at + 1} has more than ${limits.rowCharacters} characters`, oneAnObject);
    }
    const members = line.trim() === '' ? [] : membersOfLine(file, line, at + 1);
    for (const { name } of members) {
      const column = trimmed(name);
      if (!columns.has(column)) columns.set(column, columns.size);
    }
    if (columns.size > limits.columns) throw refusal(file, `it has more than ${limits.columns} columns`, oneAnObject);
    lines.add({ row: at + 1, members });
  }
  if (columns.size === 0) throw refusal(file, 'it is empty', oneAnObject);
  const rows = new SheetRows([...columns.keys()], new Budget(file));
  for (const { row, members } of lines) {
    await takeTurns(row);
    const cells: SheetCell[] = [];
    const seen = new Set<string>();
    for (const { name, cell } of members) {
      const column = trimmed(name);
      if (seen.has(column)) rows.addProblem(row, column, `${shown(column)} is there more than once; keep one of them`);
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

const token = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

interface Member {
  readonly name: string;
  readonly cell: SheetCell;
}

function cellOfValue(json: string): SheetCell {
  if (json.startsWith('"')) return textCell(JSON.parse(json) as string);
  if (json === 'null') return emptyCell;
  if (json === 'true' || json === 'false') return { text: json, raw: json, kind: 'boolean' };
  if (/^[-\d]/.test(json)) return { text: json, raw: json, kind: 'number' };
  return { text: json, raw: json, kind: 'text' };
}

/** Returns undefined if the line is JSON but not an object. Throws a SyntaxError if it is not JSON. */
function membersOf(line: string): readonly Member[] | undefined {
  // Only to check that it is JSON. The result is not used: it has rounded numbers, and only the last of repeated names.
  JSON.parse(line);
  if (!line.trimStart().startsWith('{')) return undefined;
  const members: Member[] = [];
  let depth = 0;
  let name: string | undefined;
  let value = '';
  for (const [each] of line.matchAll(token)) {
    if (each === '}' || each === ']') depth -= 1;
    if (depth === 0 || (depth === 1 && each === ',')) {
      if (name !== undefined) members.push({ name, cell: cellOfValue(value) });
      name = undefined;
      value = '';
    } else if (name === undefined) name = JSON.parse(each) as string;
    else if (!(value === '' && each === ':')) value += each;
    if (each === '{' || each === '[') depth += 1;
  }
  return members;
}
