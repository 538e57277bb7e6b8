/** What is seen of a user's balance: the number itself, and what its transactions say, as far as they are shown. */
import { Big } from 'big.js';
import type { ApiRecord } from '../../api/envelope.ts';
import type { BalanceChangeType } from '../../model/operations.ts';
import type { LookingClient, Marks, Sighting, Target } from '../action.ts';
import { decimalOf, moneyOf, moneyText } from '../decimal.ts';
import { mayHaveLost, tokenAtEnd } from '../token.ts';
import { nameOf, readUser, relatedIn, sightingOfUser, textOf, textsOf } from './user-with.ts';

/** A row's instruction. Amounts are decimal text. */
export interface BalanceParameters {
  readonly [name: string]: unknown;
  readonly type: BalanceChangeType;
  readonly amount: string;
  readonly description: string | null;
  /** The row is sent only while the balance is this. */
  readonly expected_balance: string | null;
}

export interface BalanceSighting extends Sighting {
  readonly balance: string | null;
  /** Whether the server shows transactions of the user. */
  readonly shown: boolean;
  /** Transactions with the row's token. */
  readonly hits: number;
  /** Those of them that do what the row says. */
  readonly agreeing: number;
  /** Others that do what the row says, and whose text does not tell that they are another's. */
  readonly alike: number;
  /** Transactions that set the balance. */
  readonly sets: number;
  /** What the others sum to; null where one of them does not tell its amount or direction. */
  readonly sum: string | null;
  /** Tokens of other rows in transactions that do what this one does. */
  readonly others: Marks['others'];
  /** Id of the transaction with the row's token. */
  readonly recordId: string | null;
}

const nothing = {
  shown: false,
  hits: 0,
  agreeing: 0,
  alike: 0,
  sets: 0,
  sum: null,
  others: [],
  recordId: null,
} as const;

/** Looks at the user, with transactions. Throws what the client throws, but for 404. */
export async function lookAtBalance(
  client: LookingClient,
  target: Target<BalanceParameters>,
  signal?: AbortSignal,
): Promise<BalanceSighting> {
  const record = await readUser(client, target, 'balance_transactions', signal);
  return sightingOf(record, target.parameters, target.token);
}

/** Of a user with transactions, as far as they are there; null where there is no such user. */
export function sightingOf(record: ApiRecord | null, parameters: BalanceParameters, token: string): BalanceSighting {
  const seen = { ...sightingOfUser(record), balance: moneyOf(record?.['balance']) };
  const transactions = relatedIn(record, 'balance_transactions');
  return { ...seen, ...(transactions === undefined ? nothing : tallyOf(transactions, parameters, token)) };
}

const directions: Readonly<Record<string, BalanceChangeType>> = {
  '+': 'add',
  '-': 'remove',
  '=': 'set',
  add: 'add',
  remove: 'remove',
  set: 'set',
};

/** The record does what the row says, as far as it tells; an amount that is not told speaks neither for nor against. */
function does(record: ApiRecord, { type, amount }: BalanceParameters): boolean {
  const told = decimalOf(record['amount']);
  const direction = directionOf(record);
  const magnitude = type === 'set' ? told : (told?.abs() ?? null);
  return (magnitude === null || magnitude.eq(amount)) && (direction === undefined || direction === type);
}

function directionOf(record: ApiRecord): BalanceChangeType | undefined {
  return directions[String(record['result'])] ?? directions[String(record['type'])];
}

function tallyOf(
  transactions: readonly ApiRecord[],
  parameters: BalanceParameters,
  token: string,
): Omit<BalanceSighting, keyof Sighting | 'balance'> {
  let [hits, agreeing, alike, sets] = [0, 0, 0, 0];
  let sum: Big | null = new Big(0);
  let recordId: string | null = null;
  const others: { token: string; at: string | null }[] = [];
  for (const record of transactions) {
    const texts = textsOf(record);
    const found = texts.flatMap((text) => tokenAtEnd(text) ?? []);
    const alikeIt = does(record, parameters);
    if (found.includes(token)) {
      hits += 1;
      recordId ??= nameOf(record);
      if (alikeIt) agreeing += 1;
    } else if (alikeIt && found.length > 0) {
      others.push(...found.map((each) => ({ token: each, at: textOf(record['created_at']) })));
    } else if (alikeIt && texts.every((text) => mayHaveLost(text, token))) {
      alike += 1;
    }
    const direction = directionOf(record);
    const amount = decimalOf(record['amount']);
    if (direction === 'set') sets += 1;
    else if (direction === undefined || amount === null) sum = null;
    else sum = sum === null ? null : direction === 'add' ? sum.plus(amount.abs()) : sum.minus(amount.abs());
  }
  const known = { hits, agreeing, alike, sets, others, recordId };
  return { shown: true, ...known, sum: sum === null ? null : moneyText(sum) };
}
