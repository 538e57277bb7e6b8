/**
 * Compares the journal's changes of balances with the transactions that the server shows, user by user. Pure. Section "Reconciling"
 * of docs/architecture.md.
 */
import type { Evidence, IntentState } from '../journal/port.ts';
import type { BalanceChangeType } from '../model/operations.ts';
import { parseInstant } from '../model/time.ts';
import { does, type ShownChange } from './actions/balance-judge.ts';
import { userGone } from './actions/user-with.ts';
import { isOpen } from './intent.ts';
import { moneyText } from '../model/money.ts';
import { mayHaveLost } from './token.ts';

export interface KnownRow {
  readonly batch: string;
  readonly row: number;
  readonly user: number;
  readonly token: string;
  readonly type: BalanceChangeType;
  readonly amount: string;
  readonly state: IntentState;
  readonly evidence: Evidence | null;
}

export interface JournalRows {
  /** All rows of the journal. */
  readonly byToken: ReadonlyMap<string, KnownRow>;
  /** The rows to compare, by user. */
  readonly compared: ReadonlyMap<number, readonly KnownRow[]>;
  /** The applied row that took another back, by `rowName` of that other row. */
  readonly takenBack: ReadonlyMap<string, KnownRow>;
}

export const rowName = (batch: string, row: number): string => `${batch} ${row}`;

/**
 * `missing`: applied in the journal, but the server does not show it. `repeated`: shown more than once. `amount`: shown with another
 * amount or direction. `other_user`: shown at another user. `unrecorded`: shown, but not made according to the journal. `unsettled`:
 * the journal does not know the outcome. `unknown`: a token that the journal does not have. `not_shown`: the server shows no
 * transactions of the user. `reversed` is no difference: the payment was taken back later.
 */
type FindingKind =
  | 'missing'
  | 'repeated'
  | 'amount'
  | 'other_user'
  | 'unrecorded'
  | 'unsettled'
  | 'unknown'
  | 'not_shown'
  | 'reversed';

/** As `--json` prints it; the shape is part of the contract with scripts. */
export interface Finding {
  readonly kind: FindingKind;
  readonly user_id: number;
  /** Batch to amount are from the journal; null for a token that it does not have. */
  readonly batch: string | null;
  readonly row: number | null;
  readonly state: IntentState | null;
  readonly type: BalanceChangeType | null;
  readonly amount: string | null;
  readonly token: string;
  /** How often the server shows it; `server_…`, `record_id` and `at` are of the first of these. */
  readonly times: number;
  readonly server_type: BalanceChangeType | null;
  readonly server_amount: string | null;
  readonly server_before: string | null;
  readonly record_id: string | null;
  readonly at: string | null;
  readonly note: string;
}

/** Both ends are included. Milliseconds since 1970; null if there is no bound. */
export interface Span {
  readonly from: number | null;
  readonly to: number | null;
}

export function isInSpan({ from, to }: Span, at: string | null): boolean {
  const time = parseInstant(at);
  // A change without a time may be of any time.
  return time === undefined || ((from ?? -Infinity) <= time && time <= (to ?? Infinity));
}

/** The user's changes; `hidden` if the server does not show them, `gone` if there is no such user any more. */
export type SeenChanges = readonly ShownChange[] | 'hidden' | 'gone';

/** Returns the differences of one user, and the payments that were taken back later. */
export function findingsOf(user: number, seen: SeenChanges, rows: JournalRows, span: Span): Finding[] {
  const compared = rows.compared.get(user) ?? [];
  if (seen === 'hidden') {
    const note = 'the server shows no balance transactions of this user';
    return compared.filter(isSent).map((row) => finding('not_shown', row, [], note));
  }
  const changes = seen === 'gone' ? [] : seen;
  const byToken = new Map<string, ShownChange[]>();
  for (const change of changes) {
    for (const token of new Set(change.tokens)) byToken.set(token, [...(byToken.get(token) ?? []), change]);
  }
  const withoutToken = new Set(changes.filter(({ tokens }) => tokens.length === 0));
  const found = compared.flatMap((row) => {
    const shown = byToken.get(row.token) ?? [];
    const difference = rowFinding(row, shown, withoutToken, seen === 'gone');
    if (difference !== null) return [difference];
    return row.state === 'applied' ? (findReversal(row, shown[0], rows, withoutToken) ?? []) : [];
  });
  for (const [token, shown] of byToken) {
    const known = rows.byToken.get(token);
    if (known === undefined) {
      if (isInSpan(span, shown[0]?.at ?? null)) found.push(unknownToken(user, token, shown));
    } else if (known.user !== user && rows.compared.get(known.user)?.includes(known) === true) {
      found.push({ ...finding('other_user', known, shown, `it is shown at user ${user}`), user_id: user });
    }
  }
  return found;
}

function isSent({ state }: KnownRow): boolean {
  return state === 'applied' || isOpen(state);
}

/** Returns how the row differs from what is shown; null if it does not. A change that explains it is taken out of `withoutToken`. */
function rowFinding(
  row: KnownRow,
  shown: readonly ShownChange[],
  withoutToken: Set<ShownChange>,
  isGone: boolean,
): Finding | null {
  const [change] = shown;
  const made = shown.filter((each) => does(each, row)).length;
  if (made > 1) return finding('repeated', row, shown, `it was made ${made} times`);
  if (change === undefined) {
    if (isOpen(row.state))
      return finding('unsettled', row, shown, 'the journal does not know the outcome; it is not shown');
    if (row.state !== 'applied') return null;
    if (isGone) return finding('missing', row, shown, userGone);
    // A server that cuts or changes texts may lose the token. The row then counts as applied by other evidence.
    const alike = [...withoutToken].find(
      (each) => does(each, row) && each.texts.every((text) => mayHaveLost(text, row.token)),
    );
    if (row.evidence !== 'token' && alike !== undefined) {
      withoutToken.delete(alike);
      return null;
    }
    return finding(
      'missing',
      row,
      shown,
      `the journal has it as applied, ${row.evidence === null ? 'without evidence' : `with the evidence "${row.evidence}"`}`,
    );
  }
  if (made < shown.length) {
    const several = `${shown.length} transactions carry its mark, and ${made === 1 ? 'one' : 'none'} of them has its amount and direction`;
    return finding('amount', row, shown, shown.length > 1 ? several : 'another amount or direction is shown');
  }
  if (row.state === 'applied') return null;
  if (isOpen(row.state))
    return finding('unsettled', row, shown, 'the journal does not know the outcome; it is shown once');
  return finding('unrecorded', row, shown, `it was made, and is ${row.state.replace('_', ' ')} in the journal`);
}

const opposite = { add: 'remove', remove: 'add' } as const;

/** Returns what took the applied row back: a row of the journal, or a later change by hand; null if nothing did. */
function findReversal(
  row: KnownRow,
  own: ShownChange | undefined,
  { takenBack }: JournalRows,
  withoutToken: Set<ShownChange>,
): Finding | null {
  const by = takenBack.get(rowName(row.batch, row.row));
  if (by !== undefined) return finding('reversed', row, [], `taken back by row ${by.row} of batch ${by.batch}`);
  const { type, amount } = row;
  if (type === 'set') return null;
  const after = parseInstant(own?.at ?? null) ?? -Infinity;
  const later = [...withoutToken].filter(
    (each) => does(each, { type: opposite[type], amount }) && (parseInstant(each.at) ?? Infinity) >= after,
  );
  const naming = later.find(({ texts }) => texts.some((text) => text.toLowerCase().includes(row.token)));
  const change = naming ?? later[0];
  if (change === undefined) return null;
  withoutToken.delete(change);
  const how =
    naming === undefined ? 'the same amount went the other way later, for whatever reason' : 'taken back by hand';
  return finding('reversed', row, [change], how);
}

function unknownToken(user: number, token: string, shown: readonly ShownChange[]): Finding {
  const [first] = shown;
  // A server that took a change back may have used the same text: only transactions like the first one count.
  const times = shown.filter(
    ({ type, amount }) => type === first?.type && amount?.toString() === first?.amount?.toString(),
  ).length;
  const note = `the journal does not know this mark${times > 1 ? `, made ${times} times` : ''}`;
  const none = { batch: null, row: null, state: null, type: null, amount: null };
  return { kind: 'unknown', user_id: user, ...none, token, ...serverSide(shown), times, note };
}

function finding(kind: FindingKind, row: KnownRow, shown: readonly ShownChange[], note: string): Finding {
  const { user, batch, row: number, state, type, amount, token } = row;
  return { kind, user_id: user, batch, row: number, state, type, amount, token, ...serverSide(shown), note };
}

function serverSide(shown: readonly ShownChange[]) {
  const [change] = shown;
  const { type, amount } = change ?? {};
  return {
    times: shown.length,
    server_type: type ?? null,
    server_amount: amount === null || amount === undefined ? null : moneyText(type === 'set' ? amount : amount.abs()),
    server_before: change?.before ?? null,
    record_id: change?.id ?? null,
    at: change?.at ?? null,
  };
}
