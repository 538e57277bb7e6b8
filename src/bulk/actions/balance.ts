/** `balance`: adds to, removes from or sets the balances of users. */
import { Big } from 'big.js';
import { exactNumber } from '../../api/exact.ts';
import { balanceChangeTypes } from '../../model/operations.ts';
import type { Action, KnownUser, Preview, Target } from '../action.ts';
import { amountWords, moneyOf, moneyText } from '../../model/money.ts';
import type { RowReader } from '../row-reader.ts';
import { tokenLength, withToken } from '../token.ts';
import {
  type BalanceParameters,
  type BalanceObservation,
  judgeBalance,
  lookAtBalance,
  resultOf,
} from './balance-judge.ts';
import { needsPerson, userGone } from './user-with.ts';

/** Length of a text column in this family of APIs. A longer text is refused, or cut, which would lose the token at its end. */
const longestDescription = 255;

export const balance: Action<BalanceParameters, BalanceObservation> = {
  name: 'balance',
  summary: 'add to, remove from or set balances',
  operation: 'users.update-balance',
  columns: [
    { name: 'type', required: true },
    { name: 'amount', required: true, amount: true },
    { name: 'description', required: false },
    { name: 'expected_balance', required: false, amount: true },
  ],
  examples: [
    { user_id: '42', type: 'add', amount: '5.00', description: 'Credit for the outage' },
    { user_id: '44', type: 'add', amount: '7.50', description: 'Credit for the outage' },
    // In the seed of the sandbox, this user has enough.
    { user_id: '43', type: 'remove', amount: '2.00', description: 'Correction of a double payment' },
  ],
  target: 'user',
  userFields: [],
  typed: 'net',

  readRow,
  preview: previewOf,
  // Without the description: the same amount to the same user is the same payment, whatever its text.
  identity: ({ type, amount }) => `${type} ${moneyOf(amount) ?? amount}`,

  look: lookAtBalance,
  marks: ({ hits, others }) => ({ own: hits > 0, others }),
  shown: (seen) => seen.balance,
  failedPrecondition: ({ parameters: { type, expected_balance: expected } }, seen, plannedBefore) => {
    if (!seen.found) return userGone;
    if (seen.balance === null) return 'the balance cannot be read';
    const unexpected = notAsExpected(expected, seen.balance);
    if (unexpected !== null) return unexpected;
    if (type === 'set' && plannedBefore !== null && !new Big(plannedBefore).eq(seen.balance)) {
      return `the balance is ${seen.balance}, and was ${plannedBefore} in the plan`;
    }
    return null;
  },
  body: ({ parameters: { type, amount, description }, token }) => ({
    type,
    amount: exactNumber(amount),
    description: withToken(description, token),
  }),
  judge: judgeBalance,
  unsettled: (seen) => (!seen.found || seen.shown ? null : needsPerson('shows no balance transactions')),
  inverse,
};

function readRow(row: RowReader): BalanceParameters {
  const type = row.word('type', balanceChangeTypes) ?? 'add';
  const amount = row.amount('amount');
  if (amount?.lt(0) === true && type !== 'set') {
    row.problem('amount', `${moneyText(amount)} is below zero; say ${type === 'add' ? '"remove"' : '"add"'} instead`);
  } else if (amount?.eq(0) === true && type !== 'set') {
    row.problem('amount', 'the amount is 0, which changes nothing');
  }
  const description = row.withoutToken('description', row.text('description')) ?? null;
  const room = longestDescription - tokenLength;
  if (description !== null && description.length > room) {
    row.problem('description', `it has ${description.length} characters; ${room} are the most that can be sent`);
  }
  const expected = row.isEmpty('expected_balance') ? undefined : row.amount('expected_balance');
  return {
    type,
    amount: moneyText(amount ?? new Big(0)),
    description,
    expected_balance: expected === undefined ? null : moneyText(expected),
  };
}

function notAsExpected(expected: string | null, balance: string, currency?: string): string | null {
  if (expected === null || new Big(expected).eq(balance)) return null;
  return `the balance is ${amountWords(balance, currency)}, and the row expects ${amountWords(expected, currency)}`;
}

function previewOf(parameters: BalanceParameters, user: KnownUser, currency?: string): Preview {
  const { balance: before } = user;
  if (before === null) return { problem: { column: null, problem: `the balance of user ${user.id} cannot be read` } };
  const unexpected = notAsExpected(parameters.expected_balance, before, currency);
  const result = resultOf(parameters, before);
  const after = moneyText(result);
  return {
    before,
    after,
    change: moneyText(result.minus(before)),
    ...(unexpected !== null && { problem: { column: 'expected_balance', problem: unexpected } }),
    ...(result.lt(0) && { warning: `the balance of user ${user.id} would be ${amountWords(after, currency)}` }),
    user: { ...user, balance: after },
  };
}

function inverse(
  { parameters }: Target<BalanceParameters>,
  { before }: { readonly before: string | null },
): BalanceParameters | string {
  const { type, amount, description } = parameters;
  const whole = `Reversal${description === null ? '' : `: ${description}`}`;
  // The cut must not leave half a character: servers refuse a body with one.
  const text = whole.slice(0, longestDescription - tokenLength).replace(/[\uD800-\uDBFF]$/, '');
  if (type !== 'set') {
    return { type: type === 'add' ? 'remove' : 'add', amount, description: text, expected_balance: null };
  }
  if (before === null) return 'what the balance was before it was set is not known';
  // Only if nobody has changed the balance since.
  return { type, amount: before, description: text, expected_balance: amount };
}
