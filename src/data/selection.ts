/** Turns the operator's request into a selection of tables, views and columns that exist, or suggests the nearest names. */
import { oneNamed, suggestion, UsageError } from '../model/errors.ts';
import type { Timestamp } from '../model/time.ts';
import type { Selection, StatementPart } from './reading-types.ts';
import type { Snapshot } from './reading.ts';
import { isResourceName, resourceNames } from '../model/resources.ts';

/** A table or view as the operator names it. */
export interface TableRequest extends StatementPart {
  readonly relation: string;
  /** Also the mirror's own columns, whose names begin with `_`. */
  readonly meta: boolean;
  /** A cursor: only the rows that changed or were deleted after it. */
  readonly changedSince?: string | undefined;
}

/** Whether every row is requested, in its current state. Such a table is read by ranges, anything else by one statement. */
export function isWhole({ where, order, asOf }: TableRequest): boolean {
  return where === undefined && order === undefined && asOf === undefined;
}

/** Throws a UsageError for an unknown table, view or column. */
export function resolveSelection(snapshot: Snapshot, request: TableRequest) {
  const relation = oneNamed(snapshot.relations(), request.relation, 'the mirror has no table or view');
  const known = relation.columns.map(({ name }) => name);
  for (const name of request.columns ?? []) {
    if (known.includes(name)) continue;
    throw new UsageError(`${relation.kind} ${relation.name} has no column "${name}"`, {
      advice: suggestion(name, known),
    });
  }
  // Without _seq: versions of the history do not have the one of their row, and readers of the cursor get theirs from it.
  const isShown = (name: string): boolean => !name.startsWith('_') || (request.meta && name !== '_seq');
  const columns = request.columns ?? known.filter(isShown);
  const { meta: _meta, changedSince: _since, ...part } = request;
  const selection: Selection = { ...part, relation: relation.name, columns };
  return { relation, selection };
}

/** Returns a warning if the state at that time is incomplete. Throws a UsageError if the mirror does not know that time. */
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
