/** What an export of an earlier state can be asked for, and how far it can be relied on. */
import { UsageError } from '../model/errors.ts';
import { isResourceName, resourceNames } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import type { Snapshot } from '../store/reading-types.ts';

/**
 * What the operator should know of the table as it was then; undefined where there is nothing to say. Throws a UsageError
 * where the mirror cannot tell what was then: the table has no history, or not one that reaches back so far.
 */
export function checkAsOf(
  snapshot: Pick<Snapshot, 'historyReach'>,
  relation: string,
  at: Timestamp,
): string | undefined {
  if (!isResourceName(relation)) {
    throw new UsageError(`only ${resourceNames.join(', ')} have a history, and ${relation} has none`, {
      advice: 'Leave --as-of out to export what is there now.',
    });
  }
  const { beginsAt, wholeAt } = snapshot.historyReach(relation);
  if (beginsAt === null) {
    throw new UsageError(`the mirror has never read ${relation}, so there is no earlier state of them`, {
      advice: 'Run `admin-mirror sync` first.',
    });
  }
  if (at < beginsAt) {
    throw new UsageError(`the history of ${relation} begins at ${beginsAt}, and ${at} lies before that`, {
      advice: 'Before the first sync nothing is known, and versions older than history.keep have been removed.',
    });
  }
  if (wholeAt !== null && at >= wholeAt) return undefined;
  return `at ${at} the first sync had not read all ${relation} yet; what it had not read is not in the export`;
}
