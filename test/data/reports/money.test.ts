import { Big } from 'big.js';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { insertRows, mirrorFile, type StoredValue } from '../../support/mirror-file.ts';
import { reportsIn, runReport } from '../../support/reports.ts';

const reports = reportsIn();

/** The balance-liability report of users with these balances. */
function liability(balances: readonly StoredValue[]) {
  const file = mirrorFile((database) => {
    const users = balances.map((balance, index) => ({ id: BigInt(index + 1), balance, email: 'all@one.example' }));
    insertRows(database, 'users', users);
  });
  const run = (name: string) => runReport(file, reports, { name, given: {}, now: 0 }).rows[0] ?? {};
  return { ...run('balance-liability'), shared: run('duplicate-accounts')['balance'] };
}

describe('sums of money', () => {
  test('are exact, unlike floating point', () => {
    const dimes = Array.from({ length: 1_233 }, () => 0.1);
    expect(liability(dimes)).toMatchObject({ liability: 123.3, holders: 1_233, net: 123.3, shared: 123.3 });
    // The sum of doubles.
    expect(dimes.reduce((total, each) => total + each, 0)).not.toBe(123.3);
  });

  // proves: exact-sums
  test('of 100,000 awkward amounts are exact', { tags: 'full' }, () => {
    const cents = (index: number) => ((index * 7_919 + (index % 13) * 104_729) % 2_000_003) - 700_000;
    const amounts = Array.from({ length: 100_000 }, (_, index) => cents(index) / 100);
    const total = amounts.reduce((sum, _, index) => sum + BigInt(cents(index)), 0n);
    const { net, liability: owed, negative } = liability(amounts) as Record<string, number>;
    const exact = new Big(total.toString()).div(100);
    expect(net).toBe(exact.toNumber());
    expect(new Big(owed ?? 0).plus(negative ?? 0)).toEqual(exact);
  });

  test('of any amounts with up to four decimal places are exact', () => {
    const amount = fc.tuple(
      fc.integer({ min: -9_999_999, max: 9_999_999 }),
      fc.constantFrom(1, 10, 100, 1_000, 10_000),
    );
    fc.assert(
      fc.property(fc.array(amount, { minLength: 1, maxLength: 60 }), (parts) => {
        const exact = parts.reduce((total, [digits, scale]) => total.plus(new Big(digits).div(scale)), new Big(0));
        expect(liability(parts.map(([digits, scale]) => digits / scale))).toMatchObject({ net: exact.toNumber() });
      }),
      { numRuns: 25, seed: 11 },
    );
  });

  test('hold trillions with cents', () => {
    expect(liability([1_799_999_999_999.99, 1_799_999_999_999.99])).toMatchObject({ net: 3_599_999_999_999.98 });
    expect(liability([900_000_000_000_000n])).toMatchObject({ net: 900_000_000_000_000 });
  });

  test('fail if they overflow, rather than being wrong', () => {
    expect(() => liability([900_000_000_000_000n, 900_000_000_000_000n])).toThrow(/integer overflow/);
  });
});
