/** The members of a JSON object as they stand in its text: in order, repeated ones too, numbers digit for digit. */
import type { SheetCell } from './sheet.ts';
import { emptyCell, textCell } from './cell.ts';

const token = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

export interface Member {
  readonly name: string;
  readonly cell: SheetCell;
}

/** The cell of a value's text. Lists and objects are their JSON. */
function cellOfValue(json: string): SheetCell {
  if (json.startsWith('"')) return textCell(JSON.parse(json) as string);
  if (json === 'null') return emptyCell;
  if (json === 'true' || json === 'false') return { text: json, raw: json, kind: 'boolean' };
  if (/^[-\d]/.test(json)) return { text: json, raw: json, kind: 'number' };
  return { text: json, raw: json, kind: 'text' };
}

/**
 * @returns undefined where the line is JSON, but not an object
 * @throws SyntaxError where it is not JSON
 */
export function membersOf(line: string): readonly Member[] | undefined {
  // Says whether it is JSON at all. Its result is not used: it rounds numbers and keeps the last of repeated names.
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
