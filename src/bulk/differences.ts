/**
 * Compares the journal's changes of balances with the transactions that the server shows, user by user. Pure. Section "Reconciling"
 * of docs/architecture.md.
 */
import type { Evidence, IntentState } from '../journal/port.ts';
import type { BalanceChangeType } from '../model/operations.ts';
import { parseInstant } from '../model/time.ts';
import {
  agreeingWords,
  does,
  excessOf,
  madeWords,
  makingOf,
  type ShownChange,
  type ShownMaking,
} from './actions/balance-judge.ts';
import { userGone } from './actions/user-with.ts';
import { isOpen } from './intent.ts';
import { moneyText } from '../model/money.ts';
import { mayHaveLost, saysCorrection } from './token.ts';

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
}

/**
 * `missing`: applied in the journal, but the server does not show it. `repeated`: made more than once, and what was too much was
 * not taken back. `amount`: shown with another amount or direction. `other_user`: shown at another user. `unrecorded`: shown, but
 * not made according to the journal. `unsettled`: the journal does not know the outcome. `unknown`: a token that the journal does
 * not have. `not_shown`: the server shows no transactions of the user.
 */
type FindingKind =
  | 'missing'
  | 'repeated'
  | 'amount'
  | 'other_user'
  | 'unrecorded'
  | 'unsettled'
  | 'unknown'
  | 'not_shown';

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
  /** How often the server shows it, less what was taken back; `server_…`, `record_id` and `at` are of the first of these. */
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

/** Returns the differences of one user. */
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
  const shownOf = new Map([...byToken].map(([token, shown]) => [token, makingIn(token, shown, changes, rows)]));
  // For all tokens first: what takes one change back takes no other back.
  for (const { corrections } of shownOf.values()) for (const each of corrections) withoutToken.delete(each);
  const found = compared.flatMap((row) => {
    const shown = byToken.get(row.token) ?? [];
    return rowFinding(row, shown, shownOf.get(row.token) ?? notMade, withoutToken, seen === 'gone') ?? [];
  });
  for (const [token, shown] of byToken) {
    const known = rows.byToken.get(token);
    if (known === undefined) {
      if (!isInSpan(span, shown[0]?.at ?? null)) continue;
      found.push(unknownToken(user, token, shown, shownOf.get(token) ?? notMade));
    } else if (known.user !== user && rows.compared.get(known.user)?.includes(known) === true) {
      found.push({ ...finding('other_user', known, shown, `it is shown at user ${user}`), user_id: user });
    }
  }
  return found;
}

const notMade: ShownMaking = { made: 0, takenBack: 0, corrections: [] };

/** How often the changes with the token were made, as the row says; if the journal does not know it, as the first of them. */
function makingIn(
  token: string,
  shown: readonly ShownChange[],
  changes: readonly ShownChange[],
  { byToken }: JournalRows,
): ShownMaking {
  const known = byToken.get(token);
  if (known !== undefined) {
    const own = shown.filter((each) => does(each, known));
    return makingOf(own, changes, known, token);
  }
  const { type, amount } = firstOf(token, shown) ?? {};
  // A server that took a change back may have used the same text: only transactions like the first one count.
  const own = shown.filter((each) => each.type === type && each.amount?.toString() === amount?.toString());
  if (type === undefined || amount === null || amount === undefined) return { ...notMade, made: own.length };
  return makingOf(own, changes, { type, amount: moneyText(amount.abs()) }, token);
}

/** The first change with the token that does not say that it corrects it. */
function firstOf(token: string, shown: readonly ShownChange[]): ShownChange | undefined {
  return shown.find(({ texts }) => !texts.some((text) => saysCorrection(text, token))) ?? shown[0];
}

function isSent({ state }: KnownRow): boolean {
  return state === 'applied' || isOpen(state);
}

/** Returns how the row differs from what is shown; null if it does not. A change that explains it is taken out of `withoutToken`. */
function rowFinding(
  row: KnownRow,
  shown: readonly ShownChange[],
  making: ShownMaking,
  withoutToken: Set<ShownChange>,
  isGone: boolean,
): Finding | null {
  const { made, takenBack, corrections } = making;
  const own = shown.filter((each) => !corrections.includes(each));
  const words = `it was ${made > 1 ? madeWords(making) : 'made'}`;
  const lessBack = (kind: FindingKind, note: string): Finding => ({
    ...finding(kind, row, own, note),
    times: Math.max(1, own.length - takenBack),
  });
  if (excessOf(making) > 0) return lessBack('repeated', words);
  if (shown.length === 0) return notShown(row, withoutToken, isGone);
  if (made < own.length) {
    const several = `${own.length} transactions carry its mark, and ${agreeingWords(made)} its amount and direction`;
    return lessBack('amount', own.length > 1 ? several : 'another amount or direction is shown');
  }
  if (row.state === 'applied') return null;
  if (isOpen(row.state)) {
    return lessBack('unsettled', `the journal does not know the outcome; ${made > 1 ? words : 'it is shown once'}`);
  }
  return lessBack('unrecorded', `${words}, and is ${row.state.replace('_', ' ')} in the journal`);
}

/** The same for a row whose token is nowhere. */
function notShown(row: KnownRow, withoutToken: Set<ShownChange>, isGone: boolean): Finding | null {
  const { state, evidence, token } = row;
  if (isOpen(state)) return finding('unsettled', row, [], 'the journal does not know the outcome; it is not shown');
  if (state !== 'applied') return null;
  if (isGone) return finding('missing', row, [], userGone);
  // A server that cuts or changes texts may lose the token. The row then counts as applied by other evidence.
  const alike = [...withoutToken].find(
    (each) => does(each, row) && each.texts.every((text) => mayHaveLost(text, token)),
  );
  if (evidence !== 'token' && alike !== undefined) {
    withoutToken.delete(alike);
    return null;
  }
  const by = evidence === null ? 'without evidence' : `with the evidence "${evidence}"`;
  return finding('missing', row, [], `the journal has it as applied, ${by}`);
}

function unknownToken(user: number, token: string, shown: readonly ShownChange[], making: ShownMaking): Finding {
  const { made, takenBack } = making;
  const note = `the journal does not know this mark${made > 1 ? `, ${madeWords(making)}` : ''}`;
  const none = { batch: null, row: null, state: null, type: null, amount: null };
  const times = Math.max(1, made - takenBack);
  return { kind: 'unknown', user_id: user, ...none, token, times, ...serverSide(firstOf(token, shown)), note };
}

function finding(kind: FindingKind, row: KnownRow, shown: readonly ShownChange[], note: string): Finding {
  const { user, batch, row: number, state, type, amount, token } = row;
  const known = { batch, row: number, state, type, amount, token };
  return { kind, user_id: user, ...known, times: shown.length, ...serverSide(shown[0]), note };
}

function serverSide(change: ShownChange | undefined) {
  const { type, amount } = change ?? {};
  return {
    server_type: type ?? null,
    server_amount: amount === null || amount === undefined ? null : moneyText(type === 'set' ? amount : amount.abs()),
    server_before: change?.before ?? null,
    record_id: change?.id ?? null,
    at: change?.at ?? null,
  };
}
