/** What is seen of a user's balance: the number itself, and what its transactions say, as far as they are shown. */
import { Big } from 'big.js';
import { stringifyExactly } from '../../api/exact-json.ts';
import { isRecord, recordIn, type ApiRecord } from '../../api/envelope.ts';
import { NotFound } from '../../api/errors.ts';
import type { BalanceChangeType } from '../../model/operations.ts';
import { recordId } from '../../model/records.ts';
import type { LookingClient, Sighting, Target } from '../action.ts';
import { decimalOf, moneyOf, moneyText } from '../decimal.ts';
import { tokenPartIn } from '../token.ts';

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
}

const nothing = { shown: false, hits: 0, agreeing: 0, alike: 0, sets: 0, sum: null } as const;
const absent: BalanceSighting = { found: false, email: null, username: null, balance: null, ...nothing };

/** Looks at the user, with transactions. Throws what the client throws, but for 404. */
export async function lookAtBalance(
  client: LookingClient,
  { user, parameters, token }: Target<BalanceParameters>,
  signal?: AbortSignal,
): Promise<BalanceSighting> {
  if (user === null) throw new Error('a change of a balance names its user');
  let record: ApiRecord | undefined;
  try {
    record = recordIn((await client.getUser(user, ['balance_transactions'], signal)).body);
  } catch (error) {
    if (error instanceof NotFound) return absent;
    throw error;
  }
  // Another record than the one asked for says nothing of this one.
  if (record === undefined || recordId(record) !== user) return { ...absent, found: true };
  const whole = transactionsIn(record) === undefined ? ((await lookInList(client, record, signal)) ?? record) : record;
  return sightingOf(whole, parameters, token);
}

/** The same user out of the list, which some servers give transactions with where the user alone comes without. */
async function lookInList(
  client: LookingClient,
  record: ApiRecord,
  signal: AbortSignal | undefined,
): Promise<ApiRecord | undefined> {
  const email = record['email'];
  if (typeof email !== 'string' || email === '') return undefined;
  try {
    const { records } = await client.list(
      'users',
      { filters: [{ key: 'email', value: email }], include: ['balance_transactions'], paginate: 15 },
      signal,
      { attempts: 2 },
    );
    const found = records.find((each) => recordId(each) === recordId(record));
    return found !== undefined && transactionsIn(found) !== undefined ? found : undefined;
  } catch {
    signal?.throwIfAborted();
    // What the user alone told is still there.
    return undefined;
  }
}

function transactionsIn(record: ApiRecord): readonly ApiRecord[] | undefined {
  const list = record['balance_transactions'];
  return Array.isArray(list) ? list.filter(isRecord) : undefined;
}

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);

export function sightingOf(record: ApiRecord, parameters: BalanceParameters, token: string): BalanceSighting {
  const seen = {
    found: true,
    email: textOf(record['email']),
    username: textOf(record['username']),
    balance: moneyOf(record['balance']),
  };
  const transactions = transactionsIn(record);
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
  for (const record of transactions) {
    const text = stringifyExactly(record);
    if (text.includes(token)) {
      hits += 1;
      if (does(record, parameters)) agreeing += 1;
    } else if (does(record, parameters) && mayBeOurs(text, token)) {
      alike += 1;
    }
    const direction = directionOf(record);
    const amount = decimalOf(record['amount']);
    if (direction === 'set') sets += 1;
    else if (direction === undefined || amount === null) sum = null;
    else sum = sum === null ? null : direction === 'add' ? sum.plus(amount.abs()) : sum.minus(amount.abs());
  }
  return { shown: true, hits, agreeing, alike, sets, sum: sum === null ? null : moneyText(sum) };
}

/** A token that was cut short may be ours; another one is another's. */
function mayBeOurs(text: string, token: string): boolean {
  const part = tokenPartIn(text);
  return part === undefined || token.startsWith(part);
}
