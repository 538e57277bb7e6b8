/**
 * Notices another journal that sends at the same time: its mark shows on a user after this batch's look before sending. Section
 * "Writing" of docs/architecture.md.
 */
import type { Intent } from '../journal/port.ts';
import { type OperatorError, OutcomeUnknownError } from '../model/errors.ts';
import type { Observation } from './action.ts';
import { seenBefore, type Sending } from './sending.ts';

/** Returns why the batch must stop if the user has got the same change from elsewhere since the row was sent; null if not. */
export async function foreignMark(
  { action, journal }: Pick<Sending, 'action' | 'journal'>,
  intent: Intent,
  seen: Observation,
): Promise<OperatorError | null> {
  const before = new Set(action.marks(seenBefore(intent, seen)).others.map(({ token }) => token));
  for (const { token } of action.marks(seen).others) {
    if (before.has(token) || (await journal.placeOfToken(token)) !== undefined) continue;
    return new OutcomeUnknownError(
      `the user of row ${intent.row} has got the same change from elsewhere meanwhile, with the mark ${token}, which is not in this journal. The batch was stopped`,
      {
        advice:
          'Another journal sends the same to this server. Stop it, and take back what was made twice. ' +
          '`admin-mirror bulk reconcile --adopt` records what this journal lacks.',
      },
    );
  }
  return null;
}
