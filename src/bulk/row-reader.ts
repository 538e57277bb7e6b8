/** The cells of one row by the names of their columns, with every problem collected rather than thrown. */
import type { Big } from 'big.js';
import { type OperationName, operationOf, type Parameter } from '../model/operations.ts';
import { tooLargeToWrite, writtenId } from '../model/records.ts';
import { amountOf, type AmountOptions } from './sheet/amount.ts';
import { shown } from './sheet/rows.ts';
import type { ColumnRule } from './sheet/columns.ts';
import type { SheetCell, SheetProblem, SheetRow } from './sheet/sheet.ts';
import { tokenLike } from './token.ts';

/** How cells are read: by settings and flags of the command. */
export interface ReadOptions extends AmountOptions {
  /** Whether a row may request a deletion in spite of orders and punishments. */
  readonly allowForce: boolean;
}

const empty: SheetCell = { text: '', raw: '', kind: 'empty' };

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
    return (at === undefined ? undefined : this.#cells[at]) ?? empty;
  }

  isEmpty(column: string): boolean {
    return this.cell(column).kind === 'empty';
  }

  /** The text of the cell; undefined where it is empty. A value that is no text or number is a problem. */
  text(column: string): string | undefined {
    const { text, kind } = this.cell(column);
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
      case 'error':
        this.problem(column, `the cell holds the error ${shown(text)}`);
        return undefined;
    }
  }

  required(column: string): string {
    if (this.isEmpty(column)) this.problem(column, 'the cell is empty, and a value is needed');
    return this.text(column) ?? '';
  }

  /** The text as it is, of a column that people read and rows are found again by: what looks like a token is a problem. */
  withoutToken<T extends string | undefined>(column: string, text: T): T {
    const like = text === undefined ? undefined : tokenLike(text);
    if (like !== undefined) {
      const problem = `${shown(like)} could be taken for the mark by which a row is found again`;
      this.problem(column, `${problem}; put a space after the colon, or write it otherwise`);
    }
    return text;
  }

  /** One of these words, in lower case; undefined where it is none of them, which is a problem. */
  word<const W extends string>(column: string, words: readonly W[]): W | undefined {
    const text = this.required(column);
    const found = words.find((each) => each === text.toLowerCase());
    if (found === undefined && text !== '') {
      this.problem(column, `${shown(text)} is none of ${words.map((each) => `"${each}"`).join(', ')}`);
    }
    return found;
  }

  /** The exact amount; undefined where there is none, which is a problem. */
  amount(column: string): Big | undefined {
    const read = amountOf(this.cell(column), this.options);
    if (typeof read !== 'string') return read;
    this.problem(column, read);
    return undefined;
  }

  /** Of the row as a whole where the column is null. */
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

/** The same text for two keys that name the same user: addresses and names are compared without regard to case. */
export function keyText({ column, value }: UserKey): string {
  return `${column}:${value.toLowerCase()}`;
}

/** The key in the row's cells; undefined where there is none that could be one, which is a problem of the row. */
export function readKey(row: RowReader, column: KeyColumn): UserKey | undefined {
  const value = row.required(column);
  if (value === '') return undefined;
  if (column !== 'user_id') return { column, value };
  const id = writtenId(value);
  if (typeof id === 'number') return { column, value: String(id) };
  const problem = `${shown(value)} is not a user id; an id is a whole number above 0`;
  row.problem(column, id === undefined ? problem : tooLargeToWrite(id));
  return undefined;
}

/** Whether the user is still known by the key under which it stands in the journal; null always fits. */
export function keyFits(
  key: string | null,
  user: { readonly email: string | null; readonly username: string | null },
): boolean {
  if (key === null) return true;
  const [column = ''] = key.split(':', 1);
  const value = column === 'email' ? user.email : user.username;
  return value === null || `${column}:${value.toLowerCase()}` === key;
}

type Fields = Readonly<Record<string, string | boolean>>;

export function columnsFor(operation: OperationName): ColumnRule[] {
  return operationOf(operation).parameters.map(({ name, required }) => ({ name, required }));
}

/** What the cells say; an empty one says nothing. Problems go to the reader. */
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

/** Yes or no in one of the ways in which people write it; undefined where the cell is empty, or is neither. */
export function readYes(row: RowReader, name: string): boolean | undefined {
  const text = row.text(name)?.toLowerCase();
  if (text === undefined) return undefined;
  if (yes.has(text)) return true;
  if (no.has(text)) return false;
  row.problem(name, `${shown(text)} is neither yes nor no`);
  return undefined;
}
