/** A loop that only computes lets the process hear a signal meanwhile. These would last for seconds if nobody stopped them. */
import { describe, expect, test } from 'vitest';
import { balance } from '../../src/bulk/actions/balance.ts';
import { planRows } from '../../src/bulk/plan-rows.ts';
import { readRows } from '../../src/bulk/read-rows.ts';
import { InterruptedError } from '../../src/model/errors.ts';
import { secondMs } from '../../src/model/time.ts';
import { untilAborted } from '../../src/model/turns.ts';
import { sheetOf } from '../support/bulk.ts';
import { newBatch, newIntent, newJournal } from '../support/journal.ts';

/** As good as endless for a loop that should stop in its first turn. */
const longMs = 5 * secondMs;

function* endless<T>(itemOf: (index: number) => T): Generator<T> {
  const end = performance.now() + longMs;
  for (let index = 0; performance.now() < end; index += 1) yield itemOf(index);
}

/** Aborted in the first turn of the event loop, as by Ctrl+C. */
function interrupted(): AbortSignal {
  const stop = new AbortController();
  setImmediate(() => stop.abort(new InterruptedError('SIGINT')));
  return stop.signal;
}

describe('Ctrl+C stops', () => {
  test('the planning of rows', async () => {
    const { rows } = readRows(sheetOf([[1, 'add', '5', 'x']]), balance, { decimals: 2, mark: null, allowForce: false });
    const [row] = rows;
    if (row === undefined) throw new Error('there is one row');
    let planned = 0;
    const all = endless((index) => {
      planned = index;
      return { ...row, row: index + 2 };
    });
    const planning = planRows(balance, all, new Map(), { maxRow: undefined }, interrupted());
    await expect(planning).rejects.toBeInstanceOf(InterruptedError);
    expect(planned).toBeGreaterThan(0);
  });

  test('the storing of a plan, of which nothing is then stored', async () => {
    const { journal } = await newJournal();
    const rows = untilAborted(
      endless((index) => newIntent(index + 2, index + 1)),
      interrupted(),
    );
    await expect(journal.addBatch(newBatch(), rows)).rejects.toBeInstanceOf(InterruptedError);
    expect(await journal.batch(newBatch().batch)).toBeUndefined();
  });

  test('any loop of statements over the journal, such as the check of its chain', async () => {
    const { journal } = await newJournal();
    const signal = interrupted();
    for (const _ of endless(String)) {
      if (signal.aborted) break;
      await journal.batch('none');
    }
    expect(signal.aborted).toBe(true);
  });
});
