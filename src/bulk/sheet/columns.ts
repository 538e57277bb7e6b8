/** The columns that an action knows, looked for in a sheet's header. */
import { suggestion } from '../../model/nearest.ts';
import { columnLetters } from './rows.ts';
import type { Sheet, SheetProblem } from './sheet.ts';
import { shown } from './shown.ts';

export interface ColumnRule {
  /** The header, in lower case. */
  readonly name: string;
  readonly required: boolean;
  /** A group of columns of which exactly one must be there, such as the keys of a user. */
  readonly oneOf?: string;
}

const headerRow = 1;
const quoted = (names: readonly string[]): string => names.map((each) => `"${each}"`).join(', ');

/**
 * Where each known column stands, and what is wrong with the header: unknown, empty or repeated names, missing columns,
 * none or several of a group. Headers are compared without regard to case. Nothing is chosen where there is a choice.
 */
export function columnsOf(
  sheet: Sheet,
  known: readonly ColumnRule[],
): { readonly index: ReadonlyMap<string, number>; readonly problems: readonly SheetProblem[] } {
  const index = new Map<string, number>();
  const problems: SheetProblem[] = [];
  const wrong = (column: string | null, problem: string): void => {
    problems.push({ row: headerRow, column, problem });
  };
  const names = known.map(({ name }) => name);
  const filled = new Set(
    sheet.rows.flatMap(({ cells }) => cells.flatMap(({ kind }, at) => (kind === 'empty' ? [] : [at]))),
  );
  for (const [at, header] of sheet.columns.entries()) {
    const name = header.toLowerCase();
    if (header === '') {
      // An empty column without a header, as spreadsheets leave them behind, says nothing.
      if (filled.has(at)) wrong(null, `column ${columnLetters(at)} has cells but no header; name it or empty it`);
    } else if (!names.includes(name)) {
      wrong(header, `unknown column ${shown(header)}. ${suggestion(header, names)}`);
    } else if (index.has(name)) {
      wrong(header, `the column ${shown(header)} stands there more than once; keep one of them`);
    } else index.set(name, at);
  }
  const groups = new Set(known.flatMap(({ oneOf }) => (oneOf === undefined ? [] : [oneOf])));
  for (const { name, required, oneOf } of known) {
    if (required && oneOf === undefined && !index.has(name)) wrong(null, `the column "${name}" is missing`);
  }
  for (const group of groups) {
    const members = known.filter(({ oneOf }) => oneOf === group).map(({ name }) => name);
    const there = members.filter((name) => index.has(name));
    if (there.length === 0) wrong(null, `one of the columns ${quoted(members)} is needed, and none is there`);
    if (there.length > 1) {
      wrong(null, `the columns ${quoted(there)} are all there, and any could be meant; keep one of them`);
    }
  }
  return { index, problems };
}
