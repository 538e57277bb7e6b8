/** Reads rows as instructions of an action: the rows of a sheet, each with its problems, and the rows that take a batch back. */
import type { Batch, Intent, Journal } from '../journal/port.ts';
import { counted } from '../model/text.ts';
import { UsageError } from '../model/errors.ts';
import { namesPassword } from '../model/secret.ts';
import type { Action, Parameters } from './action.ts';
import { actions } from './actions.ts';
import { moneyText } from '../model/money.ts';
import { ourColumns } from './results.ts';
import {
  type ColumnRule,
  columnsOf,
  keyColumns,
  keyRules,
  readKey,
  type ReadOptions,
  RowReader,
  type UserKey,
} from './row-reader.ts';
import { targetOf } from './sending.ts';
import { type MarkQuestion, markQuestion } from './sheet/amount.ts';
import { shown, textCell } from './sheet/rows.ts';
import type { SheetProblem, SheetRow, SheetTable } from './sheet/sheet.ts';
import { unguardedText } from '../model/spreadsheet.ts';

export interface ReadRow {
  readonly row: number;
  /** As they are in the file, in the order of its columns. A password is never kept. */
  readonly cells: readonly string[];
  /** Null if the row has no readable key, or makes a new user. */
  readonly key: UserKey | null;
  readonly parameters: Parameters;
  readonly problems: readonly SheetProblem[];
  /** The row of another batch that this one takes back. */
  readonly undoOfRow: number | null;
  /** The user as that row left it: another person may have the id since. */
  readonly wasOf?: Pick<Intent, 'key' | 'plannedEmail' | 'plannedUsername'>;
}

export interface ReadRows {
  readonly columns: readonly string[];
  readonly rows: readonly ReadRow[];
  /** Problems of the file as a whole: if there is one, no row counts as valid. */
  readonly problems: readonly SheetProblem[];
  readonly notes: readonly string[];
  /** Which decimal mark the file uses, for a person to decide. Until then it is one of the problems. */
  readonly question?: MarkQuestion;
}

/** Shared by all rows without problems: there may be a hundred thousand. */
const none: readonly SheetProblem[] = [];

/** The columns that a sheet of the action may have: those that name the user, and its own. */
export function rulesOf(action: Action): ColumnRule[] {
  // A column of the action is not a key: a new user name is not the old one.
  const own = new Set(action.columns.map(({ name }) => name));
  const keys = action.target === 'user' ? keyRules.filter(({ name }) => !own.has(name)) : [];
  return [...keys, ...action.columns];
}

/** Reads every row. Whatever is wrong with a cell becomes a problem; nothing is thrown for it. */
export function readRows(sheet: SheetTable, action: Action, options: ReadOptions): ReadRows {
  // Columns that this program adds to result files are known, so that such a file can be planned again as it is.
  const ours = sheet.columns.map((name) => name.toLowerCase()).filter((name) => ourColumns.includes(name));
  const known = rulesOf(action);
  const rules: ColumnRule[] = [...known, ...[...new Set(ours)].map((name) => ({ name, required: false }))];
  const { index, problems: headerProblems, unknown } = columnsOf(sheet, rules);
  const amounts = rules.flatMap(({ name, amount }) => (amount === true ? (index.get(name) ?? []) : []));
  const question = options.mark === null ? markQuestion(sheet.rows, amounts, options.decimals) : null;
  const problems = [
    ...headerProblems,
    ...otherActionProblem(action, unknown),
    ...(question === null ? [] : [questionProblem(sheet, question)]),
  ];
  const isKey = (name: string): boolean => known.some((each) => each.name === name && each.oneOf !== undefined);
  const keyColumn = keyColumns.find((name) => isKey(name) && index.has(name));
  // Problems in columns that are not read are no reason to refuse a row.
  const unread = new Set([...unknown, ...sheet.columns.filter((name) => name.startsWith('_'))]);
  const unreadApart = sheet.problems.filter(({ column }) => column === null || !unread.has(column));
  const cellProblems = Map.groupBy(unreadApart, ({ row }) => row);
  const hidden = sheet.columns.map(namesPassword);
  const isOurs = ours.includes('_row') && ours.length > 1;
  const given = isOurs ? sheet.rows.map(withoutGuards) : sheet.rows;
  const rows = given.map(({ row, cells }): ReadRow => {
    const reader = new RowReader({ row, cells }, index, options);
    const key = keyColumn === undefined ? null : (readKey(reader, keyColumn) ?? null);
    // If the columns are wrong, the rows cannot be read.
    const parameters = problems.length === 0 ? action.readRow(reader) : {};
    const found = problems.length > 0 ? none : [...(cellProblems.get(row) ?? none), ...reader.problems];
    return {
      row,
      cells: cells.map(({ raw }, at) => (hidden[at] === true && raw !== '' ? '****' : raw)),
      key,
      parameters,
      problems: found.length === 0 ? none : withoutEchoes(found),
      undoOfRow: null,
    };
  });
  const notes = [...sheet.notes, ...unknownNote(unknown)];
  return { columns: sheet.columns, rows, problems, notes, ...(question !== null && { question }) };
}

/** Takes off the guard against formulas that our files have, also if another program has saved them since. */
function withoutGuards({ row, cells }: SheetRow): SheetRow {
  return { row, cells: cells.map((cell) => (cell.kind === 'text' ? textCell(unguardedText(cell.raw)) : cell)) };
}

/**
 * Recognises a sheet that was made for another action. An action such as `delete` needs only the user's column, so it would accept
 * any sheet: one wrong word would delete the users who should be credited.
 */
function otherActionProblem(action: Action, unknown: readonly string[]): SheetProblem[] {
  if (action.columns.some(({ required }) => required)) return [];
  const there = new Set(unknown.map((name) => name.toLowerCase()));
  const needed = (other: Action): string[] => other.columns.flatMap(({ name, required }) => (required ? [name] : []));
  const meant = actions.find((other) => needed(other).length > 0 && needed(other).every((name) => there.has(name)));
  if (meant === undefined) return [];
  const problem = `the columns ${needed(meant).map(shown).join(', ')} are those of "${meant.name}", and this is "${action.name}"; name the other action, or take these columns out`;
  return [{ row: 1, column: null, problem }];
}

const mostNames = 20;

function unknownNote(unknown: readonly string[]): string[] {
  if (unknown.length === 0) return [];
  const names = unknown.slice(0, mostNames).map(shown).join(', ');
  const more = unknown.length > mostNames ? ` and ${unknown.length - mostNames} more` : '';
  return [`unknown ${unknown.length === 1 ? 'column was' : 'columns were'} skipped: ${names}${more}`];
}

function questionProblem({ columns }: SheetTable, { row, column, text, count, readings }: MarkQuestion): SheetProblem {
  const ways = readings.map(
    ({ mark, amount }) => `--decimal ${mark} to have ${shown(text)} read as ${moneyText(amount)}`,
  );
  const amounts = counted(count, 'amount is', 'amounts are');
  const problem = `${amounts} written with separators, and nothing says what they are: give ${ways.join(', or ')}; or write plain numbers, as 1234.56`;
  return { row, column: columns[column] ?? null, problem };
}

/** Keeps only the first problem of each column: the sheet's own report of a bad cell is better than the reader's. */
function withoutEchoes(problems: readonly SheetProblem[]): SheetProblem[] {
  return problems.filter(
    ({ column }, at) => column === null || problems.findIndex((each) => each.column === column) === at,
  );
}

/** The rows that take the batch back. Throws a UsageError if nothing of it can be taken back, or all of it was. */
export async function undoRows(journal: Journal, batch: Batch, action: Action): Promise<ReadRows> {
  if (action.target !== 'user') throw new UsageError(`what "${action.name}" did cannot be taken back by a batch`);
  const undone = await journal.undoneRows(batch.batch);
  const columns = ['user_id', ...action.columns.map(({ name }) => name)];
  const rows: ReadRow[] = [];
  const notes: string[] = [];
  let taken = 0;
  // The last change of a user is taken back first: a `set` can only be undone while its result is still the balance.
  for (const intent of (await Array.fromAsync(journal.intents(batch.batch, ['applied']))).reverse()) {
    if (undone.has(intent.row)) {
      taken += 1;
      continue;
    }
    const inverse =
      intent.discrepancy === 'balance'
        ? `nobody knows by how much it changed the balance (${intent.problem}). Look at the user, and change it by hand`
        : action.inverse(targetOf(intent), intent);
    if (typeof inverse === 'string') notes.push(`row ${intent.row} cannot be taken back: ${inverse}`);
    else rows.push(undoRow(intent, inverse, columns, rows.length + 2));
  }
  if (taken > 0)
    notes.unshift(
      `${counted(taken, 'row was', 'rows were')} taken back before, or are about to be: ${[...new Set([...undone.values()].map((by) => by.batch))].join(', ')}`,
    );
  if (rows.length === 0) {
    throw new UsageError(`nothing of batch ${batch.batch} is left to be taken back`, {
      advice: notes[0] ?? 'No row of it was applied.',
    });
  }
  return { columns, rows, problems: [], notes };
}

function undoRow(intent: Intent, parameters: Parameters, columns: readonly string[], row: number): ReadRow {
  const user = String(intent.user);
  const cells = columns.map((name) => (name === 'user_id' ? user : textOf(parameters[name])));
  // If the row has changed the user name, the user has the new one now.
  const plannedUsername = textOf(intent.parameters?.['username']) || intent.plannedUsername;
  const wasOf = { key: null, plannedEmail: intent.plannedEmail, plannedUsername };
  return {
    row,
    cells,
    key: { column: 'user_id', value: user },
    parameters,
    problems: [],
    undoOfRow: intent.row,
    wasOf,
  };
}

function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : '';
}
