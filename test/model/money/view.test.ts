/** The model reads its journal in memory where the program uses SQL. Both must see the same before a claim. */
import SqliteDatabase from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import type { ClaimView, IntentState } from '../../../src/journal/port.ts';
import { timestampOf } from '../../../src/model/time.ts';
import { randomFrom } from '../../property/server-history.ts';
import { newBatch, newIntent, newJournal } from '../../support/journal.ts';
import { sample } from '../../support/part.ts';
import { type Journal, modelOf } from './world.ts';

const rows = [
  { batch: 0, user: 0 },
  { batch: 0, user: 1 },
  { batch: 0, user: 0, type: 'remove' },
  { batch: 1, user: 0 },
  { batch: 1, user: 1 },
  { batch: 1, user: 0, type: 'remove' },
] as const;
const unclaimed = ['planned', 'blocked', 'skipped', 'invalid'] as const;
const claimed = [
  ...unclaimed,
  'sending',
  'acknowledged',
  'unknown',
  'needs_human',
  'applied',
  'not_applied',
  'rejected',
] as const;
const terms = { repeatsSince: timestampOf(0), daySince: timestampOf(0) };
const timeOf = (step: number) => timestampOf(Date.UTC(2026, 2, 11) + step * 1_000);

/** The parts that matter for the decision. Of batches or rows that stop the claim, only whether there is one. */
function decisiveOf({ rows: own, like, repeats, claimedToday, behind, overApplied }: ClaimView) {
  const order = (a: { readonly row: number | null }, b: { readonly row: number | null }) => (a.row ?? 0) - (b.row ?? 0);
  return {
    own: own.map(({ row, user, fingerprint, claimedAt }) => [row, user, fingerprint, claimedAt]),
    like: like.map(({ batch }) => batch),
    repeats: [...repeats].sort(order).map((each) => [each.batch, each.row, each.state, each.found, each.claimedAt]),
    today: claimedToday.map(({ plannedBefore, plannedAfter }) => `${plannedBefore} ${plannedAfter}`).sort(),
    behind: behind !== undefined,
    overApplied: overApplied !== undefined,
  };
}

test.each(sample([false, true], 1))(
  'the model and the program see the same of a journal (same file: %s)',
  async (sameFile) => {
    const { viewOf } = modelOf({ name: 'view', rows, processes: 1, ...(sameFile && { sameFile }) });
    const { journal, file } = await newJournal();
    for (const batch of [0, 1]) {
      const own = rows.flatMap((each, row) =>
        each.batch === batch
          ? newIntent(row, each.user, {
              subject: `row:${row}`,
              fingerprint: `user ${each.user} ${'type' in each ? each.type : 'add'} 5.00`,
              plannedBefore: '100.00',
              plannedAfter: 'type' in each ? '95.00' : '105.00',
            })
          : [],
      );
      const same = sameFile ? 'same' : String(batch);
      await journal.addBatch(
        newBatch({ batch: String(batch), fileHash: same, rowsDigest: same, hash: String(batch) }),
        own,
      );
    }
    const database = new SqliteDatabase(file);
    onTestFinished(() => void database.close());
    const setRow = database.prepare(
      'UPDATE journal_intents SET state = ?, claimed_at = ?, attempts = ?, discrepancy = ? WHERE row = ?',
    );
    const setBatch = database.prepare('UPDATE journal_batches SET behind = ? WHERE batch = ?');
    const random = randomFrom(sameFile ? 2 : 1);
    const one = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T;
    for (let attempt = 0; attempt < 200; attempt += 1) {
      const state: Journal = {
        rows: rows.map(() => {
          const when = one([0, 1, 2, 3]);
          const s: IntentState = one(when === 0 ? unclaimed : claimed);
          const twice = one([false, false, true]);
          return {
            s,
            claimed: when,
            attempts: one([0, 1]),
            old: false,
            answer: null,
            evidence: null,
            twice,
            before: '',
          };
        }),
        batches: [0, 1].map(() => ({ state: 'applying', again: false, behind: one([false, false, true]), owner: -1 })),
      };
      state.rows.forEach(({ s, claimed: when, attempts, twice }, row) =>
        setRow.run(s, when === 0 ? null : timeOf(when), attempts, twice ? 'over_applied' : null, row),
      );
      state.batches.forEach(({ behind }, batch) => setBatch.run(behind ? 'row 2 stands there' : null, String(batch)));
      for (const mine of [0, 1]) {
        const batch = (await journal.batch(String(mine))) ?? newBatch();
        const view = await journal.claimView(batch, await journal.claimable(String(mine)), terms);
        expect({ state, ...decisiveOf(view) }).toEqual({ state, ...decisiveOf(viewOf(state, mine)) });
      }
    }
  },
);
