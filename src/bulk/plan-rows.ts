/**
 * What each row would do, in the order of the file: before → after for each user, what is wrong, what deserves a look, what
 * it comes to, and the hash by which all of it is approved. Pure: the same rows and users give the same plan. Section
 * "Writing" of docs/architecture.md.
 */
import { createHash, hash } from 'node:crypto';
import { Big } from 'big.js';
import type { ClaimedRow, PlannedServer } from '../journal/port.ts';
import type { Money } from '../model/money.ts';
import type { Action, KnownUser, Parameters } from './action.ts';
import type { Users } from './find-users.ts';
import { type Caps, moneyText } from '../model/money.ts';
import { rowCapProblem } from './caps.ts';
import type { ReadRow } from './read-rows.ts';
import { keyText } from './row-reader.ts';
import { shown } from './sheet/cell.ts';
import { mapRows, PackedRows } from './sheet/packed-rows.ts';
import type { SheetProblem } from './sheet/sheet.ts';

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

export type RowsPlan = Readonly<ReturnType<typeof planRows>>;

/** By `keyText`; a text says why there is none. */
type PlannedUsers = Pick<Users, 'get' | 'set' | 'delete'>;

/** Warnings of one kind that are listed one by one. */
export const mostWarnings = 50;

/**
 * @param users they become what the rows make of them, and go with the last row that names them
 * @param shared keys that several rows have; undefined where any may
 */
export function planRows(
  action: Action,
  rows: Iterable<ReadRow>,
  users: PlannedUsers,
  caps: Pick<Caps, 'maxRow'>,
  shared?: ReadonlySet<string>,
) {
  const planned = new PackedRows<PlannedRow>();
  const claimed: ClaimedRow[] = [];
  const problems: SheetProblem[] = [];
  const warnings: string[] = [];
  let warned = 0;
  const firstRows = new Map<string, number>();
  const newKeys = new Map<string, number>();
  const changes: [row: number, change: Money][] = [];
  let net = new Big(0);
  for (const row of rows) {
    const found = action.target === 'new' ? inTheWay(action, row, users) : userOf(row, users);
    const wrong = [...row.problems];
    const note = (column: string | null, problem: string): void => {
      wrong.push({ row: row.row, column, problem });
    };
    if (typeof found === 'string' && wrong.length === 0) note(row.key?.column ?? null, found);
    const warn = (text: string): void => {
      if ((warned += 1) <= mostWarnings) warnings.push(`row ${row.row}${text}`);
    };
    const user = typeof found === 'string' ? null : found;
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
    const notes: string[] = valid && user !== null ? userNotes(user) : [];
    if (valid && preview !== undefined) {
      for (const text of preview.warnings) warn(`: ${text}`);
      notes.push(...preview.warnings);
      if (change !== null) {
        net = net.plus(change);
        changes.push([row.row, change]);
      }
      const first = fingerprint === null ? undefined : firstRows.get(fingerprint);
      if (first !== undefined) {
        warn(` does the same as row ${first}`);
        notes.push(`does the same as row ${first}`);
      } else if (fingerprint !== null) firstRows.set(fingerprint, row.row);
    }
    if (action.target === 'user' && row.key !== null) {
      const text = keyText(row.key);
      if (shared?.has(text) === false) users.delete(text);
      else if (valid && preview?.user) users.set(text, preview.user);
    }
    const [before, after] = [preview?.before ?? null, preview?.after ?? null];
    const id = action.target === 'new' ? null : (user?.id ?? null);
    if (valid) {
      const planning = { plannedBefore: before, plannedAfter: after, claimedAt: null };
      claimed.push({ row: row.row, user: id, fingerprint, ...planning });
    }
    planned.add({
      row: row.row,
      valid,
      cells: row.cells,
      subject: valid ? subject : null,
      user: id,
      key: row.key === null || row.key.column === 'user_id' ? null : keyText(row.key),
      fingerprint,
      plannedEmail: action.target === 'new' ? null : (user?.email ?? null),
      plannedUsername: action.target === 'new' ? null : (user?.username ?? null),
      parameters: valid ? row.parameters : null,
      before,
      after,
      problem: valid ? null : wrong.map(wordsOf).join('; '),
      notes,
      undoOfRow: row.undoOfRow,
    });
  }
  const sizes = sizeNotes(changes);
  const noted = mapRows(planned, (each): PlannedRow => {
    const more = sizes.get(each.row);
    return more === undefined ? each : { ...each, notes: [...more, ...each.notes] };
  });
  return { rows: noted, claimed, problems, warnings, warned, net: moneyText(net) };
}

function userOf(row: ReadRow, users: PlannedUsers): KnownUser | string {
  if (row.key === null) return 'the row names no user';
  return users.get(keyText(row.key)) ?? 'the user was not looked for';
}

/** Who has a key already that the row's new user shall have; null where nobody does. */
function inTheWay(action: Action, row: ReadRow, users: PlannedUsers): KnownUser | null {
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

export const notedFields = ['status', 'email_verified_at'] as const;

const mostLargest = 5;
/** A change of more times the median is far from what the batch does otherwise. */
const farTimes = 10;

/** About whom the row is. A field that the server does not show says nothing. */
export function userNotes({ fields }: Pick<KnownUser, 'fields'>): string[] {
  const { status, email_verified_at: verified } = fields;
  const notes: string[] = [];
  // The reference has no list of states: every other one than this deserves a look, whatever it is called.
  if (typeof status === 'string' && status !== 'active') notes.push(`the status of the user is ${shown(status)}`);
  if (verified === null) notes.push('the email is not verified');
  return notes;
}

/** Which changes stand out among those of the batch, by row: the largest, and those far from the median. */
export function sizeNotes(changes: Iterable<readonly [row: number, change: string]>): ReadonlyMap<number, string[]> {
  const notes = new Map<number, string[]>();
  // Sorted as floats, which is exact enough for an order; what is said of a change is decided on its digits.
  const sizes = Array.from(changes, ([row, change]) => ({ row, change, size: Math.abs(Number(change)) }));
  const sorted = sizes.filter(({ size }) => size > 0).sort((a, b) => b.size - a.size || a.row - b.row);
  const sizeOf = ({ change }: { readonly change: string }): Big => new Big(change).abs();
  // Of two in the middle the smaller one: of two rows, one may be far from the other.
  const middle = sorted[Math.floor(sorted.length / 2)];
  if (middle === undefined) return notes;
  const median = sizeOf(middle);
  const far = median.times(farTimes);
  for (const [place, each] of sorted.entries()) {
    const { row } = each;
    const size = sizeOf(each);
    // Where all are alike, none is large.
    if (size.lte(median)) break;
    const own: string[] = [];
    if (place < mostLargest) own.push(place === 0 ? 'the largest change' : 'one of the largest changes');
    if (size.gt(far)) own.push(`more than ${farTimes} times the median of ${moneyText(median)}`);
    if (own.length === 0) break;
    notes.set(row, own);
  }
  return notes;
}

interface Approved {
  readonly action: string;
  readonly fileHash: string | null;
  readonly server: PlannedServer;
  readonly undoOf: string | null;
  readonly rows: Iterable<PlannedRow>;
}

export function planHash({ action, fileHash, server, undoOf, rows }: Approved): string {
  const digest = createHash('sha256');
  digest.update(JSON.stringify([action, fileHash, server.address, server.owner, undoOf]));
  for (const { row, valid, subject, parameters, before, after } of rows) {
    digest.update(JSON.stringify([row, valid, subject, parameters, before, after]));
  }
  return digest.digest('hex');
}

/** The same for two batches with the same rows, in whatever order and from whatever file. */
export function rowsDigest(rows: readonly Pick<ClaimedRow, 'fingerprint'>[]): string {
  const fingerprints = rows.flatMap(({ fingerprint }) => fingerprint ?? []).sort();
  return hash('sha256', fingerprints.join('\n'));
}

/**
 * What a row is known by: two rows with the same fingerprint do the same to the same user, whatever file they stand in and
 * whatever is said beside it.
 * @param subject `user:42`, or `new:` and what a new user will be known by
 */
export function fingerprintOf(action: Action, subject: string, parameters: Parameters): string {
  const identity = action.identity(parameters);
  // Money can be read by whoever looks into the journal; what other actions send may hold words about people.
  return action.typed === 'net'
    ? `${action.name} ${subject} ${identity}`
    : hash('sha256', JSON.stringify([action.name, subject, identity])).slice(0, 24);
}
