/** What the rows of a plan come to, type by type. */
import { Big } from 'big.js';
import type { Intent } from '../journal/port.ts';
import { decimalOf, moneyText } from './decimal.ts';

export interface TypeTotal {
  readonly type: string;
  readonly rows: number;
  readonly amount: string;
}

/** Rows and amounts by their type, in the order of the types' first rows; none where rows have no type and amount. */
export async function typeTotals(
  intents: AsyncIterable<Pick<Intent, 'parameters'>> | Iterable<Pick<Intent, 'parameters'>>,
): Promise<TypeTotal[]> {
  const totals = new Map<string, { rows: number; amount: Big }>();
  for await (const { parameters } of intents) {
    const type = parameters?.['type'];
    const amount = decimalOf(parameters?.['amount']);
    if (typeof type !== 'string' || amount === null) continue;
    const total = totals.get(type) ?? { rows: 0, amount: new Big(0) };
    totals.set(type, { rows: total.rows + 1, amount: total.amount.plus(amount) });
  }
  return Array.from(totals, ([type, { rows, amount }]) => ({ type, rows, amount: moneyText(amount) }));
}
