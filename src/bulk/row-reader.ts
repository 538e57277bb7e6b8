/**
 * Reads a sheet by the names of its columns: finds them in the header, and reads the cells of one row. Collects every problem
 * instead of throwing it.
 */
import type { Big } from 'big.js';
import { distance } from 'fastest-levenshtein';
import { isSlip } from '../model/errors.ts';
import { nameKey } from '../model/identity.ts';
import { type OperationName, operationOf, type Parameter } from '../model/operations.ts';
import { columnLetters } from '../model/spreadsheet.ts';
import { tooLargeToWrite, writtenId } from '../model/records.ts';
import { alteredReason, amountOf, type AmountOptions } from './sheet/amount.ts';
import { emptyCell, shown } from './sheet/rows.ts';
import type { SheetCell, SheetProblem, SheetRow, SheetTable } from './sheet/sheet.ts';
import { tokenLike } from './token.ts';

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

function isFilled({ rows }: SheetTable, column: number): boolean {
  for (const { cells } of rows) if (cells[column]?.kind !== 'empty') return true;
  return false;
}

/**
 * Returns the index of each known column, the problems of the header and the unknown columns, which are not read. Problems are empty
 * or repeated names, missing columns, none or several of a group, and names that look like a typing error. Case does not matter. If
 * several columns could be meant, none is chosen.
 */
export function columnsOf(sheet: SheetTable, known: readonly ColumnRule[]) {
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

/** How cells are read, as settings and flags say. */
export interface ReadOptions extends AmountOptions {
  /** Whether a row may delete a user who has orders or punishments. */
  readonly allowForce: boolean;
}

export class RowReader {
  readonly row: number;
  readonly options: ReadOptions;
  readonly problems: SheetProblem[] = [];
  readonly #cells: SheetRow['cells'];
  readonly #index: ReadonlyMap<string, number>;

  constructor({ row, cells }: SheetRow, index: ReadonlyMap<string, number>, options: ReadOptions) {
    this.row = row;
    this.options = options;
    this.#cells = cells;
    this.#index = index;
  }

  cell(column: string): SheetCell {
    const at = this.#index.get(column);
    return (at === undefined ? undefined : this.#cells[at]) ?? emptyCell;
  }

  isEmpty(column: string): boolean {
    return this.cell(column).kind === 'empty';
  }

  /** The text of the cell; undefined if it is empty. What is not shown as it is stored is a problem, and so is an error. */
  text(column: string): string | undefined {
    const { text, raw, kind } = this.cell(column);
    switch (kind) {
      case 'empty':
        return undefined;
      case 'text':
      case 'number':
      case 'boolean':
        return text;
      case 'date':
      case 'percent':
        this.problem(column, `${shown(text)} is formatted as a ${kind}; format the cell as text`);
        return undefined;
      case 'formatted':
        this.problem(
          column,
          `the number ${shown(text)} is shown in another form by its format; format the cell as text`,
        );
        return undefined;
      case 'altered':
        this.problem(column, alteredReason(raw));
        return undefined;
      case 'error':
        this.problem(column, `the cell holds the error ${shown(text)}`);
        return undefined;
    }
  }

  required(column: string): string {
    if (this.isEmpty(column)) this.problem(column, 'the cell is empty, and a value is needed');
    return this.text(column) ?? '';
  }

  /** Returns the text as it is. Text that looks like a token is a problem: the server keeps tokens in this column. */
  withoutToken<T extends string | undefined>(column: string, text: T): T {
    const like = text === undefined ? undefined : tokenLike(text);
    if (like !== undefined) {
      const problem = `${shown(like)} could be taken for the mark by which a row is found again`;
      this.problem(column, `${problem}; put a space after the colon, or write it otherwise`);
    }
    return text;
  }

  /** One of these words, in lower case. Any other is a problem, and gives undefined. */
  word<const W extends string>(column: string, words: readonly W[]): W | undefined {
    const text = this.required(column);
    const found = words.find((each) => each === text.toLowerCase());
    if (found === undefined && text !== '') {
      this.problem(column, `${shown(text)} is none of ${words.map((each) => `"${each}"`).join(', ')}`);
    }
    return found;
  }

  /** The exact amount. Anything else is a problem, and gives undefined. */
  amount(column: string): Big | undefined {
    const read = amountOf(this.cell(column), this.options);
    if (typeof read !== 'string') return read;
    this.problem(column, read);
    return undefined;
  }

  /** @param column null if the problem is about the whole row */
  problem(column: string | null, problem: string): void {
    this.problems.push({ row: this.row, column, problem });
  }
}

export const keyColumns = ['user_id', 'email', 'username'] as const;
export type KeyColumn = (typeof keyColumns)[number];

export const keyRules: readonly ColumnRule[] = keyColumns.map((name) => ({ name, required: true, oneOf: 'key' }));

export interface UserKey {
  readonly column: KeyColumn;
  readonly value: string;
}

/** The same text for two keys that name the same user, however they are spelled. */
export function keyText({ column, value }: UserKey): string {
  return `${column}:${column === 'user_id' ? value : nameKey(value)}`;
}

/** pandas writes a column of ids with a gap in it as 5.0. */
const wholeNumber = /^(\d{1,15})\.0$/;

/** The key in the row's cells. A missing or impossible key is a problem, and gives undefined. */
export function readKey(row: RowReader, column: KeyColumn): UserKey | undefined {
  const { kind, text } = row.cell(column);
  // 007 and 7 are one id, but not one name.
  const value = column === 'user_id' && kind === 'formatted' ? text : row.required(column);
  if (value === '') return undefined;
  if (column !== 'user_id') return { column, value };
  const id = writtenId(value.replace(wholeNumber, '$1'));
  if (typeof id === 'number') return { column, value: String(id) };
  const problem = `${shown(value)} is not a user id; an id is a whole number above 0`;
  row.problem(column, id === undefined ? problem : tooLargeToWrite(id));
  return undefined;
}

/** Whether the user still has the key that the journal has for it; null always fits. */
export function keyFits(
  key: string | null,
  user: { readonly email: string | null; readonly username: string | null },
): boolean {
  if (key === null) return true;
  const [column = ''] = key.split(':', 1);
  const value = column === 'email' ? user.email : user.username;
  return value === null || `${column}:${nameKey(value)}` === key;
}

type Fields = Readonly<Record<string, string | boolean>>;

export function columnsFor(operation: OperationName): ColumnRule[] {
  return operationOf(operation).parameters.map(({ name, required }) => ({ name, required }));
}

/** The values of the operation's parameters. Empty cells are left out; problems go to the reader. */
export function readFields(row: RowReader, operation: OperationName): Fields {
  const fields: Record<string, string | boolean> = {};
  for (const parameter of operationOf(operation).parameters) {
    const value = readField(row, parameter);
    if (value !== undefined) fields[parameter.name] = value;
  }
  return fields;
}

const codePattern = /^[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})?$/;

function readField(row: RowReader, { name, type, required }: Parameter): string | boolean | undefined {
  if (row.isEmpty(name)) {
    if (required) row.required(name);
    return undefined;
  }
  if (name === 'password') {
    const why = 'a password does not belong in a file: it would stand in the record of what was sent. Leave it empty';
    row.problem(name, why);
    return undefined;
  }
  if (type === 'boolean') return readYes(row, name);
  const text = row.text(name);
  if (type === 'code' && text !== undefined && !codePattern.test(text)) {
    row.problem(name, `${shown(text)} is not a code, such as en or pt-BR`);
  }
  return text;
}

const yes = new Set(['true', 'yes', '1']);
const no = new Set(['false', 'no', '0']);

/** Yes or no as people write it; undefined if the cell is empty. Anything else is a problem, and gives undefined. */
export function readYes(row: RowReader, name: string): boolean | undefined {
  const text = row.text(name)?.toLowerCase();
  if (text === undefined) return undefined;
  if (yes.has(text)) return true;
  if (no.has(text)) return false;
  row.problem(name, `${shown(text)} is neither yes nor no`);
  return undefined;
}
