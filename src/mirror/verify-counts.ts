/** The numbers of records by window: those that the server counts against those that the mirror's rows explain. */
import { coverageOf } from '../model/era.ts';
import type { Day } from '../model/time.ts';
import type { LimitFunction } from 'p-limit';
import type { Window } from '../store/mirror-types.ts';
import { askedRange } from './range.ts';
import { countedStretches } from './verify-bounds.ts';
import type { ComparePorts } from './verify-window.ts';

interface WindowCount {
  readonly window: Window;
  readonly server: number;
  /** Rows that the server's range covers: the least and the most, where its rules are not known exactly. */
  readonly mirror: readonly [number, number];
}

/** A window whose records are not as many here as there, as `verify --json` tells it. */
export interface DifferingCount {
  readonly from: Day;
  readonly to: Day;
  readonly server: number;
  readonly mirror: number | readonly [number, number];
}

type CountPorts = Pick<ComparePorts, 'source' | 'store' | 'resource' | 'capabilities' | 'signal'> & {
  readonly limit: LimitFunction;
};

/** Records that the server has in the window's range, or in all. */
export function serverTotal({ source, resource, capabilities, signal }: CountPorts, window?: Window): Promise<number> {
  const range = window === undefined ? null : askedRange(window, capabilities);
  return source.total(resource, range, capabilities, signal);
}

/** Counts each window of days, side by side. */
export function countWindows(ports: CountPorts, windows: readonly Window[]): Promise<WindowCount[]> {
  const { store, resource, limit } = ports;
  // A record without a usable time may have one on the server, and one that is kept out is counted there all the same.
  const loose = store.liveCount(resource) - store.createdCount(resource) + store.keptOut(resource).own.length;
  const byDays = windows.filter((window) => coverageOf(window) === 'days');
  return Promise.all(byDays.map((window) => limit(() => countWindow(ports, window, loose))));
}

/** @param loose records that the server may count in any window */
async function countWindow(ports: CountPorts, window: Window, loose: number): Promise<WindowCount> {
  const { store, resource, capabilities } = ports;
  const server = await serverTotal(ports, window);
  const { sure, possible } = countedStretches(askedRange(window, capabilities) ?? window, capabilities);
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

/**
 * The windows in which a difference of the sums is looked for when no count shows where it is: those first whose count is
 * another than when they were read, and the newest of them, where most changes are.
 */
export function mostSuspicious(windows: readonly Window[], counts: readonly WindowCount[]): Window[] {
  const now = new Map(counts.map(({ window, server }) => [window, server]));
  const changed = (window: Window) => Number(now.get(window) !== window.serverTotal);
  return [...windows].sort((a, b) => changed(b) - changed(a) || (a.from < b.from ? 1 : -1));
}
