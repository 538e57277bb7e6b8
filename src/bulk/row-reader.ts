/** Reads the cells of one row by the names of their columns. Collects every problem instead of throwing it. */
import type { Big } from 'big.js';
import { type OperationName, operationOf, type Parameter } from '../model/operations.ts';
import { tooLargeToWrite, writtenId } from '../model/records.ts';
import { amountOf, type AmountOptions } from './sheet/amount.ts';
import { emptyCell, shown } from './sheet/rows.ts';
import type { ColumnRule } from './sheet/columns.ts';
import type { SheetCell, SheetProblem, SheetRow } from './sheet/sheet.ts';
import { tokenLike } from './token.ts';

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

  /** The text of the cell; undefined if it is empty. A date, a percentage or an error is a problem. */
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

/** The same text for two keys that name the same user: case does not matter in addresses and names. */
export function keyText({ column, value }: UserKey): string {
  return `${column}:${value.toLowerCase()}`;
}

/** The key in the row's cells. A missing or impossible key is a problem, and gives undefined. */
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

/** Whether the user still has the key that the journal has for it; null always fits. */
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
