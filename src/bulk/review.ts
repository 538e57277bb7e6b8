/**
 * A plan for people to review: every row with its user, the balance before and after, and its notes. The same rows go to the
 * terminal, to `--json` and to a sheet.
 */
import { Big } from 'big.js';
import type { Batch, Intent, Journal, RowView } from '../journal/port.ts';
import { amountWords, changeBetween, moneyText } from '../model/money.ts';
import type { Table, TableCell } from '../model/spreadsheet.ts';

/** A row as `--json` prints it. The shape is part of the contract with scripts. */
export interface ReviewRow {
  readonly row: number;
  readonly state: Intent['state'];
  /** Null if the row makes a new user, or its user was not found. */
  readonly user_id: number | null;
  readonly username: string | null;
  readonly email: string | null;
  /** As planned; as seen once the row was sent. */
  readonly before: string | null;
  readonly after: string | null;
  /** By how much the balance changes; null for other actions. */
  readonly change: string | null;
  readonly notes: readonly string[];
  readonly problem: string | null;
}

/** The balances of the plan; once the row was sent, those that were seen. */
export function balancesOf({ state, plannedBefore, plannedAfter, before = null, after = null }: RowView) {
  return state === 'planned' || state === 'invalid'
    ? { before: plannedBefore, after: plannedAfter }
    : { before: before ?? plannedBefore, after };
}

export function reviewRow(intent: RowView): ReviewRow {
  const { row, state, user, plannedEmail, plannedUsername, notes, problem } = intent;
  const { before, after } = balancesOf(intent);
  const change = changeBetween(before, after);
  return {
    row,
    state,
    user_id: user,
    username: plannedUsername,
    email: plannedEmail,
    before,
    after,
    change: change === null ? null : moneyText(change),
    notes,
    problem,
  };
}

const longestWords = 40;

/** The first parameters in order: `add 5.00 Refund`. */
export function parameterWords(parameters: Readonly<Record<string, unknown>>, currency?: string): string {
  const words = Object.entries(parameters).flatMap(([name, value]) => {
    if (typeof value !== 'string' && typeof value !== 'number') return [];
    if (name === 'amount') return amountWords(String(value), currency);
    return name === 'expected_balance' ? `if the balance is ${amountWords(String(value), currency)}` : value;
  });
  const text = words.join(' ').replaceAll(/\p{Cc}+/gu, ' ');
  return text.length > longestWords ? `${text.slice(0, longestWords - 1)}…` : text;
}

/** The rows of a batch in the order of the file: those that were just planned, or what the journal has of them now. */
export interface BatchRows {
  readonly all: () => Iterable<RowView> | AsyncIterable<RowView>;
  /** Those with notes. */
  readonly noted: () => Iterable<RowView> | AsyncIterable<RowView>;
}

export function rowsInJournal(journal: Pick<Journal, 'views'>, { batch }: Pick<Batch, 'batch'>): BatchRows {
  return { all: () => journal.views(batch), noted: () => journal.views(batch, true) };
}

export function plannedRows(rows: readonly RowView[]): BatchRows {
  return { all: () => rows, noted: () => rows.filter(({ notes }) => notes.length > 0) };
}

/** Rows with notes, the largest changes first. */
export async function notedRows({ noted }: Pick<BatchRows, 'noted'>): Promise<ReviewRow[]> {
  const sized: { readonly row: ReviewRow; readonly size: Big }[] = [];
  for await (const intent of noted()) {
    const size = changeBetween(intent.plannedBefore, intent.plannedAfter)?.abs() ?? new Big(0);
    sized.push({ row: reviewRow(intent), size });
  }
  // The sort is stable: rows of the same size stay in the order of the file.
  sized.sort((a, b) => b.size.cmp(a.size));
  return sized.map(({ row }) => row);
}

/** Columns of the plan, before those of the file. The next plan ignores columns that begin with an underscore. */
const reviewColumns = [
  '_row',
  '_note',
  '_user_id',
  '_username',
  '_email',
  '_balance_before',
  '_balance_after',
  '_change',
  '_state',
  '_problem',
] as const;

/** Before the columns of the file, so that whoever corrects a row sees the problem. */
const wrongColumns = ['_row', '_problem'] as const;

/** The invalid rows as the file has them, with their problems, to be corrected and planned again. */
export function wrongTable(journal: Pick<Journal, 'intents'>, { batch, columns }: Batch): Table {
  // If the planned file was such a table itself, it has these columns already.
  const own = columns.flatMap((name, at) => ((wrongColumns as readonly string[]).includes(name) ? [] : [at]));
  async function* rows(): AsyncGenerator<TableCell[]> {
    for await (const { row, problem, cells } of journal.intents(batch, ['invalid'])) {
      yield [row, problem, ...own.map((at) => cells[at] ?? null)];
    }
  }
  return { name: 'wrong', columns: [...wrongColumns, ...own.map((at) => columns[at] ?? '')], rows: rows() };
}

/** The cells of a row of the file, one for each of its columns. */
export function ownCells(cells: readonly string[], columns: readonly string[]): TableCell[] {
  return columns.map((_, at) => cells[at] ?? null);
}

/** The plan as a sheet: first the rows with notes, then the others in the order of the file. */
export function reviewTable(journal: Pick<Journal, 'intent' | 'intents' | 'views'>, { batch, columns }: Batch): Table {
  const cells = (intent: Intent): TableCell[] => {
    const each = reviewRow(intent);
    const user = [each.user_id, each.username, each.email];
    const said = [each.before, each.after, each.change, each.state, each.problem];
    return [each.row, each.notes.join('; '), ...user, ...said, ...ownCells(intent.cells, columns)];
  };
  async function* rows(): AsyncGenerator<TableCell[]> {
    for (const { row } of await notedRows(rowsInJournal(journal, { batch }))) {
      const intent = await journal.intent(batch, row);
      if (intent !== undefined) yield cells(intent);
    }
    for await (const intent of journal.intents(batch)) if (intent.notes.length === 0) yield cells(intent);
  }
  return { name: 'review', columns: [...reviewColumns, ...columns], rows: rows() };
}
