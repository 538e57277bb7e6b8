/**
 * Works out what each row would do, in the order of the file: before and after for each user, problems, notes, totals, and the hash
 * by which the plan is approved. The same rows and users give the same plan, except for the random tokens. Section "Writing" of docs/architecture.md.
 */
import { createHash, hash } from 'node:crypto';
import { Big } from 'big.js';
import type { ClaimedRow, NewIntent, PlannedServer } from '../journal/port.ts';
import type { Money } from '../model/money.ts';
import type { Action, KnownUser, Parameters, Preview } from './action.ts';
import { amountWords, type Caps, moneyText } from '../model/money.ts';
import { rowCapProblem } from '../journal/caps.ts';
import { counted } from '../model/text.ts';
import { Turns } from '../model/turns.ts';
import { isAmbiguous } from './live-users.ts';
import type { ReadRow } from './read-rows.ts';
import { keyText, type UserKey } from './row-reader.ts';
import { shown } from './sheet/rows.ts';
import { otherUser } from './sending.ts';
import type { SheetProblem } from './sheet/sheet.ts';
import { newToken } from './token.ts';

/** Users by `keyText`; a text says why there is no user. */
type PlannedUsers = Map<string, KnownUser | string>;

/** How many warnings of one kind are listed one by one. */
const mostWarnings = 50;

interface RowsPlan {
  readonly rows: readonly NewIntent[];
  readonly problems: readonly SheetProblem[];
  readonly warnings: readonly string[];
  readonly net: Money;
}

/** @param users changed as the rows would change them */
export async function planRows(
  action: Action,
  rows: Iterable<ReadRow>,
  users: PlannedUsers,
  caps: Pick<Caps, 'maxRow' | 'currency'>,
  signal: AbortSignal,
): Promise<RowsPlan> {
  const planner = new Planner(action, users, caps);
  const planned: NewIntent[] = [];
  const turns = new Turns();
  for (const row of rows) {
    if (turns.isDue()) await turns.take(signal);
    planned.push(planner.plan(row));
  }
  const sizes = sizeNotes(planner.changes, caps.currency);
  for (const [at, each] of planned.entries()) {
    const more = sizes.get(each.row);
    if (more !== undefined) planned[at] = { ...each, notes: [...more, ...each.notes] };
  }
  const empty = Array.from(planner.placeholders, ([column, { first, count }]) => {
    const cells = counted(count, 'cell says', 'cells say');
    return `${column}: ${cells} NULL or the like, first in row ${first}. Programs write that for an empty cell, and it would be sent as text: empty the cell if nothing is meant`;
  });
  const { problems, net, warnings } = planner;
  return { rows: planned, problems, warnings: bounded([...empty, ...warnings]), net: moneyText(net) };
}

/** The first of many warnings of one kind, and how many more there are. */
export function bounded(warnings: readonly string[]): string[] {
  const more = warnings.length - mostWarnings;
  return more > 0 ? [...warnings.slice(0, mostWarnings), `and ${more} more like these`] : [...warnings];
}

/** Plans one row after the other: a row finds its user as the earlier rows leave it. */
class Planner {
  readonly problems: SheetProblem[] = [];
  readonly warnings: string[] = [];
  /** How many cells of each column are words for an empty cell, and the first row with one. */
  readonly placeholders = new Map<string, { readonly first: number; readonly count: number }>();
  readonly changes: [row: number, change: Money][] = [];
  net = new Big(0);
  readonly #action: Action;
  readonly #users: PlannedUsers;
  readonly #caps: Pick<Caps, 'maxRow' | 'currency'>;
  /** The first row with each fingerprint, and with each key of a new user. */
  readonly #firstRows = new Map<string, number>();
  readonly #newKeys = new Map<string, number>();

  constructor(action: Action, users: PlannedUsers, caps: Pick<Caps, 'maxRow' | 'currency'>) {
    this.#action = action;
    this.#users = users;
    this.#caps = caps;
  }

  plan(row: ReadRow): NewIntent {
    const action = this.#action;
    const keys = row.problems.length === 0 ? (action.newKeys?.(row.parameters) ?? []) : [];
    const found = action.target === 'new' ? inTheWay(keys, this.#users) : userOf(row, this.#users);
    const user = typeof found === 'string' ? null : found;
    const empty = this.#placeholdersOf(row);
    const wrong = [...row.problems];
    const note = (column: string | null, problem: string): void => {
      wrong.push({ row: row.row, column, problem });
    };
    if (typeof found === 'string' && wrong.length === 0) note(row.key?.column ?? null, found);
    const other = row.wasOf === undefined || user === null ? null : otherUser(row.wasOf, user);
    if (other !== null) note(null, `${other} of the batch that is taken back: check that it is the same person`);
    const preview =
      wrong.length > 0 ? null : user === null ? {} : action.preview(row.parameters, user, this.#caps.currency);
    if (preview?.problem !== undefined) note(preview.problem.column, preview.problem.problem);
    const tooMuch = preview?.change === undefined ? null : rowCapProblem(preview.change, this.#caps);
    if (tooMuch !== null) note('amount', tooMuch);
    for (const key of keys) {
      const first = this.#newKeys.get(keyText(key));
      if (first !== undefined) note(key.column, `row ${first} makes a user with the same`);
      else this.#newKeys.set(keyText(key), row.row);
    }
    this.problems.push(...wrong);
    // Null if the row is invalid: then nothing that it would do counts.
    const sound = wrong.length === 0 ? preview : null;
    // For a new user, `user` is somebody else who has its key already.
    const about = action.target === 'new' ? null : user;
    const subject = sound === null ? null : subjectOf(action, row.parameters, about);
    const fingerprint = subject === null ? null : fingerprintOf(action, subject, row.parameters);
    const notes = sound === null ? [] : [...this.#notesOf(row.row, sound, about, fingerprint), ...empty];
    // The next row that names the user finds it as this row leaves it.
    if (row.key !== null && sound?.user) this.#users.set(keyText(row.key), sound.user);
    return {
      row: row.row,
      state: sound === null ? 'invalid' : 'planned',
      cells: row.cells,
      subject,
      user: about?.id ?? null,
      key: row.key === null || row.key.column === 'user_id' ? null : keyText(row.key),
      token: sound === null ? null : newToken(),
      fingerprint,
      plannedEmail: about?.email ?? null,
      plannedUsername: about?.username ?? null,
      parameters: sound === null ? null : row.parameters,
      plannedBefore: preview?.before ?? null,
      plannedAfter: preview?.after ?? null,
      problem: sound === null ? wrong.map(wordsOf).join('; ') : null,
      notes,
      undoOfRow: row.undoOfRow,
    };
  }

  /** Returns the notes of a valid row, and adds the row to the totals. */
  #notesOf(row: number, sound: Preview, user: KnownUser | null, fingerprint: string | null): string[] {
    const { change, warning } = sound;
    const notes = user === null ? [] : userNotes(user);
    if (warning !== undefined) {
      notes.push(warning);
      this.warnings.push(`row ${row}: ${warning}`);
    }
    if (change !== undefined) {
      this.net = this.net.plus(change);
      this.changes.push([row, change]);
    }
    const first = fingerprint === null ? undefined : this.#firstRows.get(fingerprint);
    if (first !== undefined) {
      this.warnings.push(`row ${row} does the same as row ${first}`);
      notes.push(`does the same as row ${first}`);
    } else if (fingerprint !== null) this.#firstRows.set(fingerprint, row);
    return notes;
  }

  /** Counts such words in the texts that the row would send, and in the name of its user, and returns notes on them. */
  #placeholdersOf({ row, key, parameters, undoOfRow }: ReadRow): string[] {
    // What a row takes back was on the server.
    if (undoOfRow !== null) return [];
    const texts = Object.entries(parameters);
    if (key !== null) texts.push([key.column, key.value]);
    return texts.flatMap(([column, text]) => {
      if (typeof text !== 'string' || !isPlaceholder(text)) return [];
      const { first, count } = this.placeholders.get(column) ?? { first: row, count: 0 };
      this.placeholders.set(column, { first, count: count + 1 });
      return `${column} is the text ${shown(text)}`;
    });
  }
}

function userOf(row: ReadRow, users: PlannedUsers): KnownUser | string {
  if (row.key === null) return 'the row names no user';
  return users.get(keyText(row.key)) ?? 'the user was not looked for';
}

/** The user who already has one of the new user's keys, or a text if several do; null if nobody does. */
function inTheWay(keys: readonly UserKey[], users: PlannedUsers): KnownUser | string | null {
  return (
    keys.map((key) => users.get(keyText(key))).find((each) => typeof each === 'object' || isAmbiguous(each)) ?? null
  );
}

/** The subject of the row: while one of its writes is open, no other is sent. @param user null if the row makes a new one */
function subjectOf(action: Action, parameters: Parameters, user: KnownUser | null): string | null {
  if (user !== null) return `user:${user.id}`;
  return action.newSubject === undefined ? null : `new:${action.newSubject(parameters)}`;
}

function wordsOf({ column, problem }: SheetProblem): string {
  return column === null ? problem : `${column}: ${problem}`;
}

export const notedFields = ['status', 'email_verified_at'] as const;

const mostLargest = 5;
/** A change larger than this many times the median stands out. */
const farTimes = 10;

/** Notes on the user of a row. A field that the server does not show says nothing. */
export function userNotes({ fields }: Pick<KnownUser, 'fields'>): string[] {
  const { status, email_verified_at: verified } = fields;
  const notes: string[] = [];
  // The API's reference has no list of states, so any state but this one is noted.
  if (typeof status === 'string' && status !== 'active') notes.push(`the status of the user is ${shown(status)}`);
  if (verified === null) notes.push('the email is not verified');
  return notes;
}

/** Notes on the changes that stand out in the batch: the largest, and those far from the median. `changes` are in row order. */
export function sizeNotes(
  changes: Iterable<readonly [row: number, change: string]>,
  currency?: string,
): ReadonlyMap<number, string[]> {
  const notes = new Map<number, string[]>();
  // Sorted as floats, which is exact enough for an order. The notes are decided on the exact amounts.
  const sizes = Array.from(changes, ([row, change]) => ({ row, change, size: Math.abs(Number(change)) }));
  const sorted = sizes.filter(({ size }) => size > 0).sort((a, b) => b.size - a.size);
  const sizeOf = ({ change }: { readonly change: string }): Big => new Big(change).abs();
  // Of the two in the middle, the smaller one: otherwise, of two rows neither could be far from the median.
  const middle = sorted[Math.floor(sorted.length / 2)];
  if (middle === undefined) return notes;
  const median = sizeOf(middle);
  const far = median.times(farTimes);
  for (const [place, each] of sorted.entries()) {
    const { row } = each;
    const size = sizeOf(each);
    // If all are alike, none stands out.
    if (size.lte(median)) break;
    const own: string[] = [];
    if (place < mostLargest) own.push(place === 0 ? 'the largest change' : 'one of the largest changes');
    if (size.gt(far)) own.push(`more than ${farTimes} times the median of ${amountWords(moneyText(median), currency)}`);
    if (own.length === 0) break;
    notes.set(row, own);
  }
  return notes;
}

/** Words that programs write for an empty cell: `NULL` from databases, `nan` and `None` from Python, `\N` from MySQL. */
const placeholderWords = new Set(
  String.raw`null (null) <null> [null] nil none nan nat <na> n/a \n undefined`.split(' '),
);

function isPlaceholder(text: string): boolean {
  // In lower case, R's NA is a word and a name.
  return text === 'NA' || (text.length <= 9 && placeholderWords.has(text.toLowerCase()));
}

/** What a claim of the rows would take. */
export function claimableRows(rows: readonly NewIntent[]): ClaimedRow[] {
  return rows.flatMap(({ state, row, user, fingerprint, plannedBefore, plannedAfter }) =>
    state === 'planned' ? { row, user, fingerprint, plannedBefore, plannedAfter, claimedAt: null } : [],
  );
}

type PlannedContent = Pick<NewIntent, 'row' | 'state' | 'subject' | 'parameters' | 'plannedBefore' | 'plannedAfter'>;

interface Approved {
  readonly action: string;
  readonly title: string;
  readonly fileHash: string | null;
  readonly server: PlannedServer;
  readonly undoOf: string | null;
}

/** The hash by which a plan is approved. The rows are in the order of the file. */
export function planHash(
  { action, title, fileHash, server, undoOf }: Approved,
  rows: Iterable<PlannedContent>,
): string {
  const digest = createHash('sha256');
  digest.update(JSON.stringify([action, title, fileHash, server.address, server.owner, undoOf]));
  for (const { row, state, subject, parameters, plannedBefore, plannedAfter } of rows) {
    digest.update(JSON.stringify([row, state, subject, parameters, plannedBefore, plannedAfter]));
  }
  return digest.digest('hex');
}

/** The same for two batches with the same rows, whatever their order and file. */
export function rowsDigest(rows: readonly Pick<ClaimedRow, 'fingerprint'>[]): string {
  const fingerprints = rows.flatMap(({ fingerprint }) => fingerprint ?? []).sort();
  return hash('sha256', fingerprints.join('\n'));
}

/**
 * Identifies what a row does: two rows with the same fingerprint do the same to the same user, whatever their file and description.
 * @param subject `user:42`, or `new:` and what identifies the new user
 */
export function fingerprintOf(action: Action, subject: string, parameters: Parameters): string {
  const identity = action.identity(parameters);
  // Amounts may be readable in the journal. What other actions send may hold words about people, so it is hashed.
  return action.typed === 'net'
    ? `${action.name} ${subject} ${identity}`
    : hash('sha256', JSON.stringify([action.name, subject, identity])).slice(0, 24);
}
