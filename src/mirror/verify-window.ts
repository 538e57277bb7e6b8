/** Compares one window with the server record by record, and the counts of windows with the rows. Writes nothing. */
import type { LimitFunction } from 'p-limit';
import { coverageOf, type DayRange, eraEnd, eraStart, outsideEra, takes } from '../model/era.ts';
import type { RecordKey } from '../model/records.ts';
import { counted } from '../model/text.ts';
import { addDays, type Day } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';
import { judge, Walk } from './judge.ts';
import type { MirrorPage } from './page.ts';
import { readBack, readEnd } from './read.ts';
import { controlsOf, showsDayOf } from './remove.ts';
import { dayReader, type Source } from './source.ts';
import type { Comparison, VerifyStore } from './store/verify-store.ts';
import { isWorthAnother, maxWalks, nextSize, type VisitPorts } from './sync-window.ts';
import { requestedRange } from './windows.ts';

export interface ComparePorts extends Pick<VisitPorts, 'resource' | 'profile' | 'clock' | 'signal' | 'progress'> {
  readonly source: Pick<Source, 'page' | 'total' | 'look'>;
  readonly store: VerifyStore;
}

interface WindowComparison {
  readonly findings: Findings;
  /** Why the window could not be compared whole; then the findings have no `extra` rows. */
  readonly problem: string | null;
  /** Whether the list showed no record that is known to live: then neither it nor its total shows what is gone. */
  readonly isSilent?: boolean;
}

/** Compares the window. If a sync wrote meanwhile, compares it twice and returns only what both comparisons found. */
export async function compareWindow(ports: ComparePorts, window: Window): Promise<WindowComparison> {
  const mark = ports.store.commitMark();
  const first = await compareOnce(ports, window);
  if (first.findings.size === 0 || ports.store.commitMark() === mark) return first;
  const second = await compareOnce(ports, window);
  return { ...second, findings: first.findings.confirmedBy(second.findings) };
}

async function compareOnce(ports: ComparePorts, window: Window): Promise<WindowComparison> {
  const { store, profile } = ports;
  const findings = new Findings();
  let size = profile.pageSize;
  let walk = await walkOnce(ports, window, size, findings, window.serverTotal ?? 0);
  const known = { surplus: window.surplus, freshAsOf: null };
  let verdict = judge(walk, known);
  for (let walked = 1; walked < maxWalks && isWorthAnother(verdict); walked += 1) {
    size = nextSize(size);
    const before = walk;
    walk = await walkOnce(ports, window, size, findings, before.total);
    verdict = judge(walk, { ...known, before });
  }
  if (verdict.kind === 'incomplete') return { findings, problem: verdict.why };
  findings.keepSeen(walk.ids);
  const unseen = store.unseenIds(window, walk.ids);
  if (unseen.length > 0 && walk.ids.size === 0 && !(await showsOthers(ports, new Set(unseen)))) {
    const rows = counted(unseen.length, 'record');
    const problem = `the list shows neither the ${rows} that the mirror has here nor any other that is known to live`;
    return { findings, problem, isSilent: true };
  }
  // A list may hide records that the server still has, whether it counts them or not. So some are requested by themselves.
  for (const id of unseen.slice(0, maxLooks)) {
    const found = await ports.source.look(ports.resource, id, ports.signal);
    // If its creation time has changed, another window shows it.
    if (found.kind !== 'found' || !takes(window, found.createdAt)) continue;
    const problem = `the pages did not show ${counted(unseen.length, 'record')} of the mirror, and the server still has ${id}`;
    return { findings, problem };
  }
  for (const id of unseen) findings.extra.add(id);
  return { findings, problem: null };
}

/** How many missing records are requested by themselves. */
const maxLooks = 3;

/** Whether a day with other rows shows one of them. If not, the list may be empty only for a while, as in a deploy. */
async function showsOthers(ports: ComparePorts, suspects: ReadonlySet<RecordKey>): Promise<boolean> {
  const { store, source, resource, profile, signal } = ports;
  const readDays = dayReader(source, resource, profile, signal);
  const controls = controlsOf(store, resource, suspects);
  // The newest may have been deleted just now, but hardly an old one as well.
  for (const control of new Set([controls[0], controls.at(-1)])) {
    if (control !== undefined && (await showsDayOf({ store, resource, readDays }, control, suspects))) return true;
  }
  return false;
}

async function walkOnce(
  ports: ComparePorts,
  window: Window,
  paginate: number,
  findings: Findings,
  expected: number,
): Promise<Walk> {
  const { source, store, resource, profile, clock, progress, signal } = ports;
  const range = requestedRange(window, profile);
  // A wide range also shows records of neighbouring windows. They are compared there.
  const isMeant = takes.bind(null, window);
  const read = (page: number, isBehind = false): Promise<MirrorPage> => {
    const wanted = { isMeant, keptOut: store.keptOut(resource), isBehind };
    return source.page(resource, { page, paginate, range }, profile, signal, wanted);
  };
  const startedAt = clock.now();
  const end = await readEnd(read, expected, paginate, Infinity);
  if (end.kind === 'large') throw new Error('a window without a bound is too large');
  const walk = new Walk(startedAt);
  for await (const page of readBack(read, end.page)) {
    for (const { rows } of page.parts ?? [page]) {
      for (const comparison of store.compare(resource, rows)) findings.note(comparison);
    }
    walk.add(page, clock.now());
    progress({ kind: 'page', resource, records: page.ids.length });
  }
  return walk;
}

interface Difference {
  readonly id: RecordKey;
  readonly fields: readonly string[];
}

/** What differs, by ids only: even a mirror that has nothing in common with the server must fit into memory. */
export class Findings {
  /** On the server only. */
  readonly missing = new Set<RecordKey>();
  /** In the mirror only. */
  readonly extra = new Set<RecordKey>();
  /** In both, by id, with the columns that differ. */
  readonly different = new Map<RecordKey, readonly string[]>();
  /** On the server, and kept out of the mirror on purpose. */
  readonly hidden = new Set<RecordKey>();
  readonly #columnLists = new Map<string, readonly string[]>();

  get size(): number {
    return this.missing.size + this.extra.size + this.different.size;
  }

  /** Notes what was found of a record, in place of what an earlier page has shown of it. */
  note(comparison: Comparison): void {
    const { id, kind } = comparison;
    this.missing.delete(id);
    this.different.delete(id);
    if (kind === 'missing') this.missing.add(id);
    if (kind === 'hidden') this.hidden.add(id);
    if (kind === 'different') this.different.set(id, this.#shared(comparison.fields));
  }

  /** Thousands of records may differ in the same columns: each list of names is kept once. */
  #shared(fields: readonly string[]): readonly string[] {
    const key = fields.join(' ');
    const known = this.#columnLists.get(key) ?? fields;
    this.#columnLists.set(key, known);
    return known;
  }

  /** Drops what was found of records that the settled walk has not seen. */
  keepSeen(seen: ReadonlySet<RecordKey>): void {
    for (const id of this.missing) if (!seen.has(id)) this.missing.delete(id);
    for (const id of this.different.keys()) if (!seen.has(id)) this.different.delete(id);
  }

  /** Adds the findings of another part of the resource. */
  add(other: Findings): void {
    for (const id of other.missing) this.missing.add(id);
    for (const id of other.extra) this.extra.add(id);
    for (const id of other.hidden) this.hidden.add(id);
    for (const [id, fields] of other.different) this.different.set(id, this.#shared(fields));
    // The record of an extra row may turn up in another window, with another creation time.
    for (const id of this.different.keys()) this.extra.delete(id);
  }

  /** Returns what both this and a later comparison of the same records have found. */
  confirmedBy(later: Findings): Findings {
    const both = new Findings();
    for (const id of this.missing) if (later.missing.has(id)) both.missing.add(id);
    for (const id of this.extra) if (later.extra.has(id)) both.extra.add(id);
    for (const [id, fields] of later.different) if (this.different.has(id)) both.different.set(id, fields);
    for (const id of later.hidden) both.hidden.add(id);
    return both;
  }

  listed(): { readonly missing: RecordKey[]; readonly extra: RecordKey[]; readonly different: Difference[] } {
    return {
      missing: inOrder(this.missing),
      extra: inOrder(this.extra),
      different: inOrder(this.different.keys()).map((id) => ({ id, fields: this.different.get(id) ?? [] })),
    };
  }
}

function inOrder(ids: Iterable<RecordKey>): RecordKey[] {
  return [...ids].sort((a, b) => (a < b ? -1 : 1));
}

interface WindowCount {
  readonly window: Window;
  readonly server: number;
  /** How many rows the server's range covers: at least and at most, since its rules may not be known exactly. */
  readonly mirror: readonly [number, number];
}

/** A window with another number of records on the server, as `verify --json` shows it. */
export interface DifferingCount {
  readonly from: Day;
  readonly to: Day;
  readonly server: number;
  readonly mirror: number | readonly [number, number];
}

type CountPorts = Pick<ComparePorts, 'source' | 'store' | 'resource' | 'profile' | 'signal' | 'progress'> & {
  readonly limit: LimitFunction;
};

/** Counts each window of days, side by side. */
export function countWindows(ports: CountPorts, windows: readonly Window[]): Promise<WindowCount[]> {
  const { source, resource, profile, signal, limit, progress } = ports;
  const byDays = windows.filter((window) => coverageOf(window) === 'days');
  return Promise.all(
    byDays.map((window) =>
      limit(async () => {
        const server = await source.total(resource, window, profile, signal);
        progress({ kind: 'window', resource, of: byDays.length });
        return { window, server, mirror: rowsOn(ports, window) };
      }),
    ),
  );
}

/** Returns how many records the server should count in the window: at least and at most. */
function rowsOn({ store, resource, profile }: CountPorts, window: Window): readonly [number, number] {
  const rows = (days: DayRange) => store.accountedCount(resource, days);
  const least = rows(window) + window.surplus;
  // A row without a usable time may have one on the server.
  const loose = rows(outsideEra);
  if (profile.dayBounds === 'exact') return [least, least + loose];
  if (profile.dayBounds === 'next_day') {
    const atMidnight = store.midnightCount(resource, window.to);
    return [least + atMidnight, least + atMidnight + loose];
  }
  // The range is a day wider on each side, and the server's days may begin up to 14 hours away from those of creation times.
  const from = window.from > eraStart ? addDays(window.from, -2) : window.from;
  const to = window.to < eraEnd ? addDays(window.to, 3) : window.to;
  return [least, rows({ from, to }) + window.surplus + loose];
}

/** Whether the rows cannot explain the server's count. */
export function differs({ server, mirror: [least, most] }: WindowCount): boolean {
  return server < least || server > most;
}

/** Whether the count could hide a difference of a few records. */
export function isRough({ mirror: [least, most] }: WindowCount): boolean {
  return least !== most;
}

export function differingCount({ window, server, mirror }: WindowCount): DifferingCount {
  const [least, most] = mirror;
  return { from: window.from, to: window.to, server, mirror: least === most ? least : mirror };
}

/** Orders the windows for the search for a difference: those whose count changed first, then the newest. */
export function mostSuspicious(windows: readonly Window[], counts: readonly WindowCount[]): Window[] {
  const now = new Map(counts.map(({ window, server }) => [window, server]));
  const changed = (window: Window) => Number(now.get(window) !== window.serverTotal);
  return [...windows].sort((a, b) => changed(b) - changed(a) || (a.from < b.from ? 1 : -1));
}
