/** One window of the mirror against the server, record for record. Records nothing. */
import type { Capabilities } from '../api/capabilities.ts';
import { counted } from '../model/text.ts';
import { type DayRange, takes } from '../model/era.ts';
import type { RecordKey } from '../model/records.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Clock } from '../model/time.ts';
import type { SyncProgress, Window } from '../store/mirror-types.ts';
import type { Comparison, VerifyStore } from './store/verify-store.ts';
import { requestedRange, type Source } from './source.ts';
import { controlsOf, showsDayOf } from './reconcile.ts';
import { problemOf, type WalkPorts, walkUncut, walkWindow } from './walk.ts';

export interface ComparePorts {
  readonly source: Pick<Source, 'page' | 'total' | 'look'>;
  readonly store: VerifyStore;
  readonly clock: Clock;
  readonly resource: ResourceName;
  readonly capabilities: Capabilities;
  readonly signal: AbortSignal;
  readonly progress: SyncProgress;
}

interface WindowComparison {
  readonly findings: Findings;
  /** Why the window could not be compared whole; then rows without a record are not among the findings. */
  readonly problem: string | null;
  /** Whether the list showed nothing that is known to live, so that neither it nor its total says what is gone. */
  readonly isSilent?: boolean;
}

/** Compares the window; where a sync wrote meanwhile, a second time, and only what both looks show differs. */
export async function compareWindow(ports: ComparePorts, window: Window): Promise<WindowComparison> {
  const mark = ports.store.commitMark();
  const first = await look(ports, window);
  if (first.findings.size === 0 || ports.store.commitMark() === mark) return first;
  const second = await look(ports, window);
  return { ...second, findings: first.findings.confirmedBy(second.findings) };
}

async function look(ports: ComparePorts, window: Window): Promise<WindowComparison> {
  const { store, capabilities } = ports;
  const findings = new Findings();
  const portsOf = (pageSize: number) => walkPorts(ports, window, pageSize, findings);
  const walked = await walkWindow(portsOf, capabilities.pageSize, Infinity);
  const verdict = await walkUncut(portsOf, capabilities.pageSize, walked);
  if (verdict.kind !== 'settled') return { findings, problem: problemOf(verdict) };
  findings.keepSeen(verdict.seen);
  const unseen = store.unseenIds(window, verdict.seen);
  if (unseen.length > 0 && verdict.seen.size === 0 && !(await showsOthers(ports, new Set(unseen)))) {
    const rows = counted(unseen.length, 'record');
    const problem = `the list shows neither the ${rows} that the mirror has here nor any other that is known to live`;
    return { findings, problem, isSilent: true };
  }
  // Some are requested by themselves: a list may hide what the server still has, and count it or not.
  for (const id of unseen.slice(0, looked)) {
    const found = await ports.source.look(ports.resource, id, ports.signal);
    // One that was created at another time now is shown by another window.
    if (found.kind !== 'found' || !takes(window, found.createdAt)) continue;
    const problem = `the pages did not show ${counted(unseen.length, 'record')} of the mirror, and the server still has ${id}`;
    return { findings, problem };
  }
  for (const id of unseen) findings.extra.add(id);
  return { findings, problem: null };
}

const looked = 3;

/** Whether a day with other rows shows one of them: a list may be empty only for a while, as in a deploy. */
async function showsOthers(ports: ComparePorts, suspects: ReadonlySet<RecordKey>): Promise<boolean> {
  const { store, source, resource, capabilities, signal } = ports;
  const readDays = (days: DayRange) => {
    const range = requestedRange(days, capabilities);
    return source.page(resource, { page: 1, paginate: capabilities.pageSize, range }, capabilities, signal);
  };
  const controls = controlsOf(store, resource, suspects);
  // The newest may have been deleted just now; the oldest hardly, too.
  for (const control of new Set([controls[0], controls.at(-1)])) {
    if (control !== undefined && (await showsDayOf({ store, resource, readDays }, control, suspects))) return true;
  }
  return false;
}

function walkPorts(ports: ComparePorts, window: Window, paginate: number, findings: Findings): WalkPorts {
  const { source, store, resource, capabilities, clock, progress, signal } = ports;
  const range = requestedRange(window, capabilities);
  // Neighbours that a wide range shows are compared in their own window.
  const wanted = { rowsOf: [takes.bind(null, window)], keptOut: store.keptOut(resource) };
  return {
    clock,
    pageSize: paginate,
    expected: window.serverTotal,
    surplus: 0,
    past: 0,
    isOrdered: capabilities.sorts === 'kept',
    read: (page) => source.page(resource, { page, paginate, range }, capabilities, signal, wanted),
    record: (page, seen) => {
      let unusable = 0;
      const twins: RecordKey[] = [];
      for (const rows of page.rows) {
        unusable += rows.unusable;
        for (const comparison of store.compare(resource, rows)) {
          const { id, kind } = comparison;
          // Equal on one page and different on another: it is neither.
          if (seen.has(id) && (kind === 'different') !== findings.different.has(id)) twins.push(id);
          else findings.note(comparison);
        }
      }
      progress({ kind: 'page', resource, records: page.ids.length });
      return { unusable, twins };
    },
  };
}

interface Difference {
  readonly id: RecordKey;
  readonly fields: readonly string[];
}

/** Ids only: a mirror that has nothing in common with the server must still be reported in bounded memory. */
export class Findings {
  /** On the server only. */
  readonly missing = new Set<RecordKey>();
  /** In the mirror only. */
  readonly extra = new Set<RecordKey>();
  /** In both, by id, with the columns that differ. */
  readonly different = new Map<RecordKey, readonly string[]>();
  /** On the server, and kept out of the mirror on purpose. */
  readonly hidden = new Set<RecordKey>();
  readonly #lists = new Map<string, readonly string[]>();

  get size(): number {
    return this.missing.size + this.extra.size + this.different.size;
  }

  /** Takes what was found of a record; a later look at it stands in the place of an earlier one. */
  note(comparison: Comparison): void {
    const { id, kind } = comparison;
    this.missing.delete(id);
    this.different.delete(id);
    if (kind === 'missing') this.missing.add(id);
    if (kind === 'hidden') this.hidden.add(id);
    if (kind === 'different') this.different.set(id, this.#shared(comparison.fields));
  }

  /** Thousands of records differ in the same few columns: their names are kept once. */
  #shared(fields: readonly string[]): readonly string[] {
    const key = fields.join(' ');
    const known = this.#lists.get(key) ?? fields;
    this.#lists.set(key, known);
    return known;
  }

  /** Drops what was found of records that a later pass over the same pages did not show. */
  keepSeen(seen: ReadonlySet<RecordKey>): void {
    for (const id of this.missing) if (!seen.has(id)) this.missing.delete(id);
    for (const id of this.different.keys()) if (!seen.has(id)) this.different.delete(id);
  }

  /** Adds what the comparison of another part of the resource has found. */
  add(other: Findings): void {
    for (const id of other.missing) this.missing.add(id);
    for (const id of other.extra) this.extra.add(id);
    for (const id of other.hidden) this.hidden.add(id);
    for (const [id, fields] of other.different) this.different.set(id, this.#shared(fields));
    // A row whose record turns up under another creation time has its record.
    for (const id of this.different.keys()) this.extra.delete(id);
  }

  /** What this one and a later look at the same records have both found. */
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
