/** What the runner tells whoever watches. */
import type { IntentState } from '../journal/port.ts';

export type BulkEvent =
  /** So many rows are to be sent in this run. */
  | { readonly kind: 'begin'; readonly rows: number }
  | { readonly kind: 'row'; readonly row: number; readonly state: IntentState }
  | { readonly kind: 'wait'; readonly ms: number; readonly why: string };

export type BulkProgress = (event: BulkEvent) => void;
