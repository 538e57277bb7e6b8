/** From what the operator named to a selection: tables, views and columns that are there, or the nearest that are. */
import { UsageError } from '../model/errors.ts';
import { suggestion } from '../model/nearest.ts';
import type { Timestamp } from '../model/time.ts';
import type { Relation, Selection, Snapshot } from '../store/reading-types.ts';

/** A table or view as the operator asks for it. */
export interface TableRequest {
  readonly relation: string;
  /** By name and in this order; without it all columns of the data. */
  readonly columns?: readonly string[];
  /** Also the columns that the mirror keeps for itself, whose names begin with `_`. */
  readonly meta: boolean;
  readonly where?: string;
  readonly order?: string;
  /** The table as the mirror knew it then. */
  readonly asOf?: Timestamp;
}

/** Whether every row is asked for, as it is now: such a table is read in pieces, and anything else by one statement. */
export function isWhole({ where, order, asOf }: TableRequest): boolean {
  return where === undefined && order === undefined && asOf === undefined;
}

interface Resolved {
  readonly relation: Relation;
  readonly selection: Selection;
}

/** Throws a UsageError for an unknown table, view or column. */
export function resolveSelection(snapshot: Snapshot, request: TableRequest): Resolved {
  const relation = relationNamed(snapshot.relations(), request.relation);
  const known = relation.columns.map(({ name }) => name);
  for (const name of request.columns ?? []) {
    if (known.includes(name)) continue;
    throw new UsageError(`${relation.kind} ${relation.name} has no column "${name}"`, {
      advice: suggestion(name, known),
    });
  }
  const columns = request.columns ?? known.filter((name) => request.meta || !name.startsWith('_'));
  const { where, order, asOf } = request;
  return {
    relation,
    selection: {
      relation: relation.name,
      columns,
      ...(where === undefined ? {} : { where }),
      ...(order === undefined ? {} : { order }),
      ...(asOf === undefined ? {} : { asOf }),
    },
  };
}

function relationNamed(relations: readonly Relation[], name: string): Relation {
  const found = relations.find((each) => each.name === name);
  if (found !== undefined) return found;
  const names = relations.map((each) => each.name);
  throw new UsageError(`the mirror has no table or view "${name}"`, { advice: suggestion(name, names) });
}
