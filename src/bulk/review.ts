/**
 * A plan to be read whole: every row with its user, the balance before and after, and what deserves a look. The same rows
 * go to the terminal, into `--json` and into a sheet.
 */
import { Big } from 'big.js';
import type { Batch, Intent, Journal, RowView } from '../journal/port.ts';
import { changeBetween, moneyText } from '../model/money.ts';
import type { Table, TableCell } from '../model/table.ts';

/** As `--json` has it; the shape is part of the contract with scripts. */
export interface ReviewRow {
  readonly row: number;
  readonly state: Intent['state'];
  /** Null where the row makes a new user, or its user was not found. */
  readonly user_id: number | null;
  readonly username: string | null;
  readonly email: string | null;
  /** As planned, and once the row was sent, as seen. */
  readonly before: string | null;
  readonly after: string | null;
  /** By how much the balance changes; null of other actions. */
  readonly change: string | null;
  readonly notes: readonly string[];
  readonly problem: string | null;
}

/** The balance that the plan shows, and once the row was sent, what was seen. */
export function balancesOf({ state, plannedBefore, plannedAfter, before, after }: RowView) {
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

/** The first parameters in their order, as `add 5.00 Refund`. */
export function parameterWords(parameters: Readonly<Record<string, unknown>>): string {
  const words = Object.values(parameters).filter((value) => typeof value === 'string' || typeof value === 'number');
  const text = words.join(' ').replaceAll(/\p{Cc}+/gu, ' ');
  return text.length > longestWords ? `${text.slice(0, longestWords - 1)}…` : text;
}

/** Rows that deserve a look, the largest changes first. */
export async function notedRows(journal: Pick<Journal, 'views'>, batch: string): Promise<ReviewRow[]> {
  const sized: { readonly row: ReviewRow; readonly size: Big }[] = [];
  for await (const intent of journal.views(batch, true)) {
    const size = changeBetween(intent.plannedBefore, intent.plannedAfter)?.abs() ?? new Big(0);
    sized.push({ row: reviewRow(intent), size });
  }
  // Those of one size stay in the order of the file.
  sized.sort((a, b) => b.size.cmp(a.size));
  return sized.map(({ row }) => row);
}

/** What the plan says of a row, before the columns of the file. The underscore keeps them out of the next plan. */
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

/** Before the columns of the file, so that whoever corrects a row sees it. The underscore keeps them out of the next plan. */
const wrongColumns = ['_row', '_problem'] as const;

/** The rows that are wrong as the file has them, with why: to be corrected and planned again. */
export function wrongTable(journal: Pick<Journal, 'intents'>, { batch, columns }: Batch): Table {
  // A file of before that was corrected in part has them already.
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

/** The plan as a sheet: rows that deserve a look on top, the others below them in the order of the file. */
export function reviewTable(journal: Pick<Journal, 'intent' | 'intents' | 'views'>, { batch, columns }: Batch): Table {
  const cells = (intent: Intent): TableCell[] => {
    const each = reviewRow(intent);
    const user = [each.user_id, each.username, each.email];
    const said = [each.before, each.after, each.change, each.state, each.problem];
    return [each.row, each.notes.join('; '), ...user, ...said, ...ownCells(intent.cells, columns)];
  };
  async function* rows(): AsyncGenerator<TableCell[]> {
    for (const { row } of await notedRows(journal, batch)) {
      const intent = await journal.intent(batch, row);
      if (intent !== undefined) yield cells(intent);
    }
    for await (const intent of journal.intents(batch)) if (intent.notes.length === 0) yield cells(intent);
  }
  return { name: 'review', columns: [...reviewColumns, ...columns], rows: rows() };
}
