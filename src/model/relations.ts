/** The mirror's tables of related records: what they are called, and which there can be. */
import { type ResourceName, resourceNames, resourceOf } from './resources.ts';

/** Related records of one name, and where the mirror keeps them. */
export interface RelationTable {
  readonly resource: ResourceName;
  /** As `include` names it. */
  readonly relation: string;
  /** `user_orders` */
  readonly table: string;
  /** `user_orders_flat`: a column for every key seen so far. */
  readonly view: string;
  /** `user_id` */
  readonly parentColumn: string;
}

/** Where the related records of that name are kept; the name need not be one of the reference. */
export function relationTable(resource: ResourceName, relation: string): RelationTable {
  const { singular } = resourceOf(resource);
  const table = `${singular}_${relation}`;
  return { resource, relation, table, view: `${table}_flat`, parentColumn: `${singular}_id` };
}

/** Every table of related records that a mirror can have, in the order of the reference. */
export const relationTables: readonly RelationTable[] = resourceNames.flatMap((resource) =>
  (resourceOf(resource).includes ?? []).map((relation) => relationTable(resource, relation)),
);
