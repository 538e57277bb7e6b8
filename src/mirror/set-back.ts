/** A clock that was ahead when windows were read has given them times that are no longer true. */
import type { ResourceName } from '../model/resources.ts';
import { timestampOf, type Clock } from '../model/time.ts';
import type { MirrorStore } from '../store/mirror-types.ts';
import { forgetReading } from './capability-record.ts';

interface SetBackPorts {
  readonly store: Pick<MirrorStore, 'windows' | 'resetWindows' | 'recordEvent'>;
  readonly clock: Clock;
  readonly run: string;
}

/**
 * Where a window was read later than now, the clock has been set back since, and how fresh the rows are is not known:
 * everything of the resource is to be read again. Its rows stay. Section "Windows and walks" of docs/architecture.md.
 */
export function forgetFutureReading({ store, clock, run }: SetBackPorts, resource: ResourceName): void {
  const now = timestampOf(clock.now());
  const future = store.windows(resource).find(({ freshAsOf }) => freshAsOf !== null && freshAsOf > now);
  if (future === undefined) return;
  const detail = `it is ${now}, and ${future.from}..${future.to} was read at ${future.freshAsOf}; all is read again`;
  // In this order a stop in between tells it twice rather than never.
  store.recordEvent(run, { resource, kind: 'clock_set_back', subject: run, detail });
  forgetReading(store, resource);
}
