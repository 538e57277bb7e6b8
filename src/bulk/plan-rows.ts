/**
 * What each row would do, in the order of the file: before → after for each user, what is wrong, what is odd, and what
 * it comes to. Pure: the same rows and users give the same plan. Section "Writing" of docs/architecture.md.
 */
import { Big } from 'big.js';
import type { Money } from '../model/money.ts';
import { type Caps, rowCapProblem } from './caps.ts';
import type { Action, KnownUser, Parameters } from './action.ts';
import { moneyText } from './decimal.ts';
import { fingerprintOf } from './fingerprint.ts';
import { sizeNotes, userNotes } from './plan-notes.ts';
import type { ReadRow } from './read-rows.ts';
import type { SheetProblem } from './sheet/sheet.ts';
import { keyText } from './user-key.ts';

export interface PlannedRow {
  readonly row: number;
  readonly valid: boolean;
  readonly cells: readonly string[];
  readonly subject: string | null;
  readonly user: number | null;
  readonly key: string | null;
  readonly fingerprint: string | null;
  readonly plannedEmail: string | null;
  readonly plannedUsername: string | null;
  readonly parameters: Parameters | null;
  readonly before: string | null;
  readonly after: string | null;
  readonly problem: string | null;
  /** What deserves a look, for people; no part of what is approved. */
  readonly notes: readonly string[];
  readonly undoOfRow: number | null;
}

export interface RowsPlan {
  readonly rows: readonly PlannedRow[];
  readonly problems: readonly SheetProblem[];
  readonly warnings: readonly string[];
  /** The planned change of the sum of all balances. */
  readonly net: Money;
  /** Changes up and down, summed without their signs. */
  readonly moved: Money;
}

/** @param users by `keyText`; a text says why there is none */
export function planRows(
  action: Action,
  rows: readonly ReadRow[],
  users: ReadonlyMap<string, KnownUser | string>,
  caps: Pick<Caps, 'maxRow'>,
): RowsPlan {
  const planned: PlannedRow[] = [];
  const problems: SheetProblem[] = [];
  const warnings: string[] = [];
  const latest = new Map<number, KnownUser>();
  const firstRows = new Map<string, number>();
  const newKeys = new Map<string, number>();
  const changes = new Map<number, Big>();
  let net = new Big(0);
  let moved = new Big(0);
  for (const row of rows) {
    const found = action.target === 'new' ? inTheWay(action, row, users) : userOf(row, users);
    const wrong = [...row.problems];
    const note = (column: string | null, problem: string): void => {
      wrong.push({ row: row.row, column, problem });
    };
    if (typeof found === 'string' && wrong.length === 0) note(row.key?.column ?? null, found);
    const user = typeof found === 'string' || found === null ? null : (latest.get(found.id) ?? found);
    const preview = wrong.length === 0 ? action.preview(row.parameters, user) : undefined;
    for (const { column, problem } of preview?.problems ?? []) note(column, problem);
    const change = preview?.change ?? null;
    const tooMuch = change === null ? null : rowCapProblem(change, caps);
    if (tooMuch !== null) note('amount', tooMuch);
    if (action.target === 'new' && row.problems.length === 0) {
      for (const key of action.newKeys?.(row.parameters) ?? []) {
        const first = newKeys.get(keyText(key));
        if (first !== undefined) note(key.column, `row ${first} makes a user with the same`);
        else newKeys.set(keyText(key), row.row);
      }
    }
    const valid = wrong.length === 0;
    problems.push(...wrong);
    const subject = subjectOf(action, row, user);
    const fingerprint = valid && subject !== null ? fingerprintOf(action, subject, row.parameters) : null;
    const notes: string[] = [];
    if (valid && preview !== undefined) {
      warnings.push(...preview.warnings.map((text) => `row ${row.row}: ${text}`));
      notes.push(...(user === null ? [] : userNotes(user)), ...preview.warnings);
      if (preview.user !== null) latest.set(preview.user.id, preview.user);
      if (change !== null) {
        net = net.plus(change);
        moved = moved.plus(new Big(change).abs());
        changes.set(row.row, new Big(change));
      }
      const first = fingerprint === null ? undefined : firstRows.get(fingerprint);
      if (first !== undefined) {
        warnings.push(`row ${row.row} does the same as row ${first}`);
        notes.push(`does the same as row ${first}`);
      } else if (fingerprint !== null) firstRows.set(fingerprint, row.row);
    }
    planned.push({
      row: row.row,
      valid,
      cells: row.cells,
      subject: valid ? subject : null,
      user: action.target === 'new' ? null : (user?.id ?? null),
      key: row.key === null || row.key.column === 'user_id' ? null : keyText(row.key),
      fingerprint,
      plannedEmail: action.target === 'new' ? null : (user?.email ?? null),
      plannedUsername: action.target === 'new' ? null : (user?.username ?? null),
      parameters: valid ? row.parameters : null,
      before: preview?.before ?? null,
      after: preview?.after ?? null,
      problem: valid ? null : wrong.map(wordsOf).join('; '),
      notes,
      undoOfRow: row.undoOfRow,
    });
  }
  const sizes = sizeNotes(changes);
  const rowsWithNotes = planned.map((each) => {
    const more = sizes.get(each.row);
    return more === undefined ? each : { ...each, notes: [...more, ...each.notes] };
  });
  return { rows: rowsWithNotes, problems, warnings, net: moneyText(net), moved: moneyText(moved) };
}

function userOf(row: ReadRow, users: ReadonlyMap<string, KnownUser | string>): KnownUser | string {
  if (row.key === null) return 'the row names no user';
  return users.get(keyText(row.key)) ?? 'the user was not looked for';
}

/** Who has a key already that the row's new user shall have; null where nobody does. */
function inTheWay(action: Action, row: ReadRow, users: ReadonlyMap<string, KnownUser | string>): KnownUser | null {
  if (row.problems.length > 0) return null;
  const found = (action.newKeys?.(row.parameters) ?? []).map((key) => users.get(keyText(key)));
  return found.find((each) => typeof each === 'object') ?? null;
}

/** Whose open write keeps others back. */
function subjectOf(action: Action, row: ReadRow, user: KnownUser | null): string | null {
  if (row.problems.length > 0) return null;
  if (action.target === 'user') return user === null ? null : `user:${user.id}`;
  return action.newSubject === undefined ? null : `new:${action.newSubject(row.parameters)}`;
}

function wordsOf({ column, problem }: SheetProblem): string {
  return column === null ? problem : `${column}: ${problem}`;
}
