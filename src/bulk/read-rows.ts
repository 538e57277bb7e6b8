/** Rows as instructions of an action: those of a sheet, each with what is wrong with it, and those that take a batch back. */
import type { Batch, Intent, Journal } from '../journal/port.ts';
import { counted } from '../model/text.ts';
import { UsageError } from '../model/errors.ts';
import { namesPassword } from '../model/secret.ts';
import type { Action, Parameters } from './action.ts';
import { actions } from './actions.ts';
import { moneyText } from '../model/money.ts';
import { ourColumns } from './results.ts';
import { keyColumns, keyRules, readKey, type ReadOptions, RowReader, type UserKey } from './row-reader.ts';
import { targetOf } from './sending.ts';
import { type MarkQuestion, markQuestion } from './sheet/amount.ts';
import { mapRows, type Rows, shown } from './sheet/rows.ts';
import { type ColumnRule, columnsOf } from './sheet/columns.ts';
import type { Sheet, SheetProblem } from './sheet/sheet.ts';

export interface ReadRow {
  readonly row: number;
  /** As they stand in the file, in the order of its columns; a password is never kept. */
  readonly cells: readonly string[];
  /** Null where the row names none that could be read, or makes a new user. */
  readonly key: UserKey | null;
  readonly parameters: Parameters;
  readonly problems: readonly SheetProblem[];
  /** The row of another batch that this one takes back. */
  readonly undoOfRow: number | null;
  /** Whom that one left: an id may be another person's since. */
  readonly wasOf?: Pick<Intent, 'key' | 'plannedEmail' | 'plannedUsername'>;
}

export interface ReadRows {
  readonly columns: readonly string[];
  /** Read anew each time that they are gone through. */
  readonly rows: Rows<ReadRow>;
  /** Of the file as a whole: while there is one, no row counts as valid. */
  readonly problems: readonly SheetProblem[];
  readonly notes: readonly string[];
  /** The question to a person, so that the file can be read with that mark; it stands among the problems until then. */
  readonly question?: MarkQuestion;
}

/** Reads every row; nothing is thrown for what stands in the cells. */
export function readRows(sheet: Sheet, action: Action, options: ReadOptions): ReadRows {
  // Result files have columns of ours, so that one of them can be sent again as it is.
  const ours = sheet.columns.map((name) => name.toLowerCase()).filter((name) => ourColumns.includes(name));
  // What the action itself has a column for names no user: a new user name is not the old one.
  const own = new Set(action.columns.map(({ name }) => name));
  const keys = action.target === 'user' ? keyRules.filter(({ name }) => !own.has(name)) : [];
  const rules: ColumnRule[] = [
    ...keys,
    ...action.columns,
    ...[...new Set(ours)].map((name) => ({ name, required: false })),
  ];
  const { index, problems: headerProblems, unknown } = columnsOf(sheet, rules);
  const amounts = rules.flatMap(({ name, amount }) => (amount === true ? (index.get(name) ?? []) : []));
  const question = options.mark === null ? markQuestion(sheet.rows, amounts, options.decimals) : null;
  const problems = [
    ...headerProblems,
    ...otherActionProblem(action, unknown),
    ...(question === null ? [] : [questionProblem(sheet, question)]),
  ];
  const keyColumn = keyColumns.find((name) => keys.some((key) => key.name === name) && index.has(name));
  // What stands in a column that is not read is no reason to refuse a row.
  const unread = new Set([...unknown, ...sheet.columns.filter((name) => name.startsWith('_'))]);
  const unreadApart = sheet.problems.filter(({ column }) => column === null || !unread.has(column));
  const cellProblems = Map.groupBy(unreadApart, ({ row }) => row);
  const hidden = sheet.columns.map(namesPassword);
  const rows = mapRows(sheet.rows, (row): ReadRow => {
    const reader = new RowReader(row, index, options);
    const key = keyColumn === undefined ? null : (readKey(reader, keyColumn) ?? null);
    // Without its columns there is nothing to be read of a row.
    const parameters = problems.length === 0 ? action.readRow(reader) : {};
    const found = problems.length === 0 ? [...(cellProblems.get(row.row) ?? []), ...reader.problems] : [];
    return {
      row: row.row,
      cells: row.cells.map(({ raw }, at) => (hidden[at] === true && raw !== '' ? '****' : raw)),
      key,
      parameters,
      problems: withoutEchoes(found),
      undoOfRow: null,
    };
  });
  const notes = [...sheet.notes, ...unknownNote(unknown)];
  return { columns: sheet.columns, rows, problems, notes, ...(question !== null && { question }) };
}

/**
 * A sheet that was made for another action. Where an action needs no columns but the user's, any sheet would do for it: a
 * slip of the hand would delete those who were to be credited.
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

function questionProblem({ columns }: Sheet, { row, column, text, count, readings }: MarkQuestion): SheetProblem {
  const ways = readings.map(
    ({ mark, amount }) => `--decimal ${mark} to have ${shown(text)} read as ${moneyText(amount)}`,
  );
  const amounts = counted(count, 'amount is', 'amounts are');
  const problem = `${amounts} written with separators, and nothing says what they are: give ${ways.join(', or ')}; or write plain numbers, as 1234.56`;
  return { row, column: columns[column] ?? null, problem };
}

/** A cell's own error is reported once: by the sheet, which knows most of it, and not again by who read the cell. */
function withoutEchoes(problems: readonly SheetProblem[]): SheetProblem[] {
  return problems.filter(
    ({ column }, at) => column === null || problems.findIndex((each) => each.column === column) === at,
  );
}

/** Throws a UsageError where nothing of the batch can be taken back, or all of it was. */
export async function undoRows(journal: Journal, batch: Batch, action: Action): Promise<ReadRows> {
  if (action.target !== 'user') throw new UsageError(`what "${action.name}" did cannot be taken back by a batch`);
  const undone = await journal.undoneRows(batch.batch);
  const columns = ['user_id', ...action.columns.map(({ name }) => name)];
  const rows: ReadRow[] = [];
  const notes: string[] = [];
  let taken = 0;
  // The last change of a user is taken back first: a `set` stands on the balance that came before it.
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
  // A user name that the row has changed is the new one since.
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
