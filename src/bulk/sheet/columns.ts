/** Finds the columns of an action in the header of a sheet. */
import { distance } from 'fastest-levenshtein';
import { isSlip } from '../../model/errors.ts';
import { columnLetters, shown } from './rows.ts';
import type { Sheet, SheetProblem } from './sheet.ts';

export interface ColumnRule {
  /** The header, in lower case. */
  readonly name: string;
  readonly required: boolean;
  /** The group of the column. Exactly one column of a group must be there, such as one key of the user. */
  readonly oneOf?: string;
  /** Its cells are amounts. All amounts of a file must have the same decimal mark. */
  readonly amount?: true;
}

const headerRow = 1;
const quoted = (names: readonly string[]): string => names.map((each) => `"${each}"`).join(', ');

function isFilled({ rows }: Sheet, column: number): boolean {
  for (const { cells } of rows) if (cells[column]?.kind !== 'empty') return true;
  return false;
}

/**
 * Returns the index of each known column, the problems of the header and the unknown columns, which are not read. Problems are empty
 * or repeated names, missing columns, none or several of a group, and names that look like a typing error. Case does not matter. If
 * several columns could be meant, none is chosen.
 */
export function columnsOf(sheet: Sheet, known: readonly ColumnRule[]) {
  const index = new Map<string, number>();
  const problems: SheetProblem[] = [];
  const wrong = (column: string | null, problem: string): void => {
    problems.push({ row: headerRow, column, problem });
  };
  const unknown = new Set<string>();
  const names = known.map(({ name }) => name);
  const present = new Set(sheet.columns.map((each) => each.toLowerCase()));
  const chosen = new Set(known.flatMap(({ name, oneOf }) => (oneOf !== undefined && present.has(name) ? [oneOf] : [])));
  /** The known columns that the header may mean: if a typing error dropped a column, nobody would notice. */
  const meantBy = (header: string): string[] =>
    known
      .filter(({ name, oneOf }) => {
        // A column that is present is not missing, so only a header that looks like a copy of it is a problem.
        if (present.has(name)) return distance(header, name) === 1;
        if (oneOf !== undefined && chosen.has(oneOf)) return false;
        const parts = [name, ...name.split(/[[\]]/)].filter((part) => part !== '');
        return parts.some((part) => isSlip(header, part) || (header.length > 2 && part.startsWith(header)));
      })
      .map(({ name }) => name);
  for (const [at, header] of sheet.columns.entries()) {
    const name = header.toLowerCase();
    if (header === '') {
      // Spreadsheet programs may leave empty columns without a header behind.
      if (isFilled(sheet, at)) wrong(null, `column ${columnLetters(at)} has cells but no header; name it or empty it`);
    } else if (!names.includes(name)) {
      const meant = meantBy(name);
      if (meant.length === 0) unknown.add(header);
      else
        wrong(
          header,
          `unknown column ${shown(header)}. Did you mean ${meant.map((each) => `"${each}"`).join(' or ')}?`,
        );
    } else if (index.has(name)) {
      wrong(header, `the column ${shown(header)} is there more than once; keep one of them`);
    } else index.set(name, at);
  }
  for (const problem of missingColumns(known, index)) wrong(null, problem);
  return { index: index as ReadonlyMap<string, number>, problems, unknown: [...unknown] };
}

/** Problems of required columns that are missing, and of groups of which none or several are there. */
function* missingColumns(known: readonly ColumnRule[], index: ReadonlyMap<string, number>): Generator<string> {
  for (const { name, required, oneOf } of known) {
    if (required && oneOf === undefined && !index.has(name)) yield `the column "${name}" is missing`;
  }
  for (const [group, members] of Map.groupBy(known, ({ oneOf }) => oneOf)) {
    if (group === undefined) continue;
    const names = members.map(({ name }) => name);
    const given = names.filter((name) => index.has(name));
    if (given.length === 0) yield `one of the columns ${quoted(names)} is needed, and none is there`;
    if (given.length > 1) {
      yield `the columns ${quoted(given)} are all there, and each could be meant; keep one of them`;
    }
  }
}
