import { describe, expect, test } from 'vitest';
import { checkNotRepeated } from '../../src/bulk/claim.ts';
import { timestampOf } from '../../src/model/time.ts';
import type { SentRow } from '../../src/journal/port.ts';

const at = (minute: number) => timestampOf(Date.UTC(2026, 2, 11, 10, minute));

/** A row of another batch, claimed and sent at these minutes. */
function sent(batch: string, claimed: number, minute: number): SentRow {
  const done = { row: 2, at: at(minute), claimedAt: at(claimed), state: 'applied', found: false } as const;
  return { fingerprint: 'balance user:7 add 5.00', batch, ...done };
}

function check(claimed: number | null, repeats: readonly SentRow[]): void {
  const row = { row: 2, user: 7, fingerprint: 'balance user:7 add 5.00', plannedBefore: '0.00', plannedAfter: '5.00' };
  const rows = [{ ...row, claimedAt: claimed === null ? null : at(claimed) }];
  const view = { rows, repeats, like: [], claimedToday: [], behind: undefined, overApplied: undefined };
  checkNotRepeated(view, { fileHash: null, undoOf: null }, { reason: null });
}

describe('a row that is claimed', () => {
  test('is refused where anything did the same', () => {
    expect(() => check(null, [sent('one', 1, 2)])).toThrow(/1 row was sent before/);
    expect(() => check(null, [])).not.toThrow();
  });

  test('for the second time is refused for what was claimed since, and not for what was known then', () => {
    expect(() => check(5, [sent('known', 1, 2)])).not.toThrow();
    expect(() => check(5, [sent('since', 6, 7)])).toThrow(/1 row was sent before/);
  });

  test('is refused for what was claimed since, also where something older was sent last', () => {
    expect(() => check(5, [sent('since', 6, 7), sent('known', 1, 9)])).toThrow(/1 row was sent before/);
  });
});
