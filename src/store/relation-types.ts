/** What the sync engine needs of the store for related records, besides the pages that bring them. */
import type { ResourceName } from '../model/resources.ts';

export interface RelationStore {
  /** The relations that the resource's rows were read with: what a run need not read everything again for. */
  includedRelations(resource: ResourceName): readonly string[];
  /**
   * From now on every page of the resource is recorded with these relations. Makes their tables where there are none;
   * where one was not read before, every window of the resource is to be read again.
   */
  includeRelations(resource: ResourceName, relations: readonly string[]): void;
  /** The server would not give them: the resource goes on without, its tables of related records stay as they are. */
  abandonRelations(resource: ResourceName): void;
}
