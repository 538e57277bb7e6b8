/** What a sync reports while it goes on; whoever draws it decides how. */
import type { ResourceName } from '../model/resources.ts';

export type SyncEvent =
  /** Records that this run will read of the resource, as far as known; it may grow. */
  | { readonly kind: 'expected'; readonly resource: ResourceName; readonly records: number }
  | { readonly kind: 'page'; readonly resource: ResourceName; readonly records: number }
  /** A comparison has counted one more window, of so many. */
  | { readonly kind: 'window'; readonly resource: ResourceName; readonly of: number }
  | { readonly kind: 'notice'; readonly resource: ResourceName; readonly text: string }
  | { readonly kind: 'end'; readonly resource: ResourceName; readonly status: string; readonly problem: string | null };

export type SyncProgress = (event: SyncEvent) => void;
