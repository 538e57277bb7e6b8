/** Locks by name, as everything that holds or meets one sees them. */
import type { Timestamp } from '../model/time.ts';

/** Who holds a lock. */
export interface LockOwner {
  readonly run: string;
  /** What it is doing: `sync`, `forget`. */
  readonly command: string;
  readonly pid: number;
  readonly host: string;
  readonly acquiredAt: Timestamp;
}
