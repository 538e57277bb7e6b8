/** The numbers of records by window: those that the server counts against those that the mirror's rows explain. */
import type { LimitFunction } from 'p-limit';
import type { Capabilities } from '../api/capabilities.ts';
import { requestedRange } from './source.ts';
import type { Stretch } from './store/verify-store.ts';
import type { ComparePorts } from './verify-window.ts';
import { coverageOf, type DayRange } from '../model/era.ts';
import { type Day, dayMs, hourMs, minuteMs, secondMs, startOfDay, timestampOf } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';

/** No clock on earth is further from UTC. */
const largestShiftMs = 14 * hourMs;

/** @param range as it is requested, which is wider than the window where the server's rules are not known */
export function countedStretches(
  range: DayRange,
  capabilities: Capabilities,
): { readonly sure: Stretch; readonly possible: Stretch } {
  const { rangeEnd, dayShiftMinutes } = capabilities;
  const [earliest, latest] =
    dayShiftMinutes === 'unknown'
      ? [-largestShiftMs, largestShiftMs]
      : [-dayShiftMinutes * minuteMs, -dayShiftMinutes * minuteMs];
  const start = startOfDay(range.from);
  const midnight = startOfDay(range.to);
  // Whether the very last moment belongs to a range is another rule of each server's, and one second is its extent.
  const sureEnd = rangeEnd === 'inclusive' ? midnight + dayMs - secondMs : midnight;
  const possibleEnd = (rangeEnd === 'exclusive' ? midnight : midnight + dayMs) + secondMs;
  return {
    sure: { from: secondOf(start + latest), to: secondOf(sureEnd + earliest) },
    possible: { from: secondOf(start + earliest), to: secondOf(possibleEnd + latest) },
  };
}

/** Text that sorts before every timestamp of that second, and after those of the one before. */
function secondOf(ms: number): string {
  return timestampOf(ms).slice(0, 'YYYY-MM-DDTHH:MM:SS'.length);
}

interface WindowCount {
  readonly window: Window;
  readonly server: number;
  /** Rows that the server's range covers: the least and the most, where its rules are not known exactly. */
  readonly mirror: readonly [number, number];
}

/** A window whose records are not as many here as there, as `verify --json` shows it. */
export interface DifferingCount {
  readonly from: Day;
  readonly to: Day;
  readonly server: number;
  readonly mirror: number | readonly [number, number];
}

type CountPorts = Pick<ComparePorts, 'source' | 'store' | 'resource' | 'capabilities' | 'signal'>;

/** Records that the server has in the window's range, or in all. */
export function serverTotal({ source, resource, capabilities, signal }: CountPorts, window?: Window): Promise<number> {
  const range = window === undefined ? null : requestedRange(window, capabilities);
  return source.total(resource, range, capabilities, signal);
}

/** Counts each window of days, side by side. */
export function countWindows(
  ports: CountPorts & Pick<ComparePorts, 'progress'> & { readonly limit: LimitFunction },
  windows: readonly Window[],
): Promise<WindowCount[]> {
  const { store, resource, limit, progress } = ports;
  // A record without a usable time may have one on the server, and one that is kept out is counted there all the same.
  const loose = store.liveCount(resource) - store.createdCount(resource) + store.keptOut(resource).own.length;
  const byDays = windows.filter((window) => coverageOf(window) === 'days');
  return Promise.all(
    byDays.map((window) =>
      limit(async () => {
        const count = await countWindow(ports, window, loose);
        progress({ kind: 'window', resource, of: byDays.length });
        return count;
      }),
    ),
  );
}

/** @param loose records that the server may count in any window */
async function countWindow(ports: CountPorts, window: Window, loose: number): Promise<WindowCount> {
  const { store, resource, capabilities } = ports;
  const server = await serverTotal(ports, window);
  const { sure, possible } = countedStretches(requestedRange(window, capabilities) ?? window, capabilities);
  const mirror = [store.createdCount(resource, sure), store.createdCount(resource, possible) + loose] as const;
  return { window, server, mirror };
}

/** Whether the rows cannot explain what the server counts. */
export function differs({ server, mirror: [least, most] }: WindowCount): boolean {
  return server < least || server > most;
}

/** Whether a difference of a few records could not be seen in the count. */
export function isRough({ mirror: [least, most] }: WindowCount): boolean {
  return least !== most;
}

export function differingCount({ window, server, mirror }: WindowCount): DifferingCount {
  const [least, most] = mirror;
  return { from: window.from, to: window.to, server, mirror: least === most ? least : mirror };
}

/** Where a difference of the sums is looked for: windows whose count changed first, then the newest. */
export function mostSuspicious(windows: readonly Window[], counts: readonly WindowCount[]): Window[] {
  const now = new Map(counts.map(({ window, server }) => [window, server]));
  const changed = (window: Window) => Number(now.get(window) !== window.serverTotal);
  return [...windows].sort((a, b) => changed(b) - changed(a) || (a.from < b.from ? 1 : -1));
}
