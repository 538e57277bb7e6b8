/** Cells that become fields of a user, read by the descriptor of the operation that they go to. */
import { operationOf, type OperationName, type Parameter } from '../../model/operations.ts';
import type { RowReader } from '../row-reader.ts';
import type { ColumnRule } from '../sheet/columns.ts';
import { shown } from '../sheet/shown.ts';

/** By the API's names, `address[city]` among them. */
export type Fields = Readonly<Record<string, string | boolean>>;

/** The operation's parameters as the columns of a sheet. */
export function columnsFor(operation: OperationName): ColumnRule[] {
  return operationOf(operation).parameters.map(({ name, required }) => ({ name, required }));
}

/** What the cells say; an empty one says nothing. Problems are told to the reader. */
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
    row.problem(name, `${shown(text)} is no code, such as en or pt-BR`);
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
