/** Compares one window with the server record by record, read as a sync reads it. Writes nothing. */
import { takes } from '../model/era.ts';
import type { RecordKey } from '../model/records.ts';
import { counted } from '../model/text.ts';
import type { Window } from '../store/mirror-types.ts';
import { readWindow } from './read.ts';
import type { Source } from './source.ts';
import type { Comparison, VerifyStore } from './store/verify-store.ts';
import type { VisitPorts } from './sync-window.ts';
import { requestedRange } from './windows.ts';

export interface ComparePorts extends Pick<VisitPorts, 'resource' | 'profile' | 'clock' | 'signal' | 'progress'> {
  readonly source: Pick<Source, 'page' | 'total' | 'look'>;
  readonly store: VerifyStore;
}

interface WindowComparison {
  readonly findings: Findings;
  /** Why the window could not be compared whole; then the findings have no `extra` rows. */
  readonly problem: string | null;
}

/** Compares the window; once more if a sync wrote meanwhile, since what that changed looks like a difference. */
export async function compareWindow(ports: ComparePorts, window: Window): Promise<WindowComparison> {
  const mark = ports.store.commitMark();
  const first = await compareOnce(ports, window);
  const isSure = first.findings.size === 0 || ports.store.commitMark() === mark;
  return isSure ? first : compareOnce(ports, window);
}

async function compareOnce(ports: ComparePorts, window: Window): Promise<WindowComparison> {
  const { source, store, resource, profile, clock, progress, signal } = ports;
  const findings = new Findings();
  const range = requestedRange(window, profile);
  const include = store.includedRelations(resource);
  const absent = new Set<string>();
  // A wide range also shows records of neighbouring windows. They are compared there.
  const isMeant = takes.bind(null, window);
  const { walk, verdict } = await readWindow({
    pageSize: profile.pageSize,
    expected: window.serverTotal ?? 0,
    known: { surplus: window.surplus, freshAsOf: null },
    now: () => clock.now(),
    read: (page, paginate, isBehind) => {
      const wanted = { isMeant, keptOut: store.keptOut(resource), isBehind };
      return source.page(resource, { page, paginate, range, include }, profile, signal, wanted);
    },
    take: async (page, _, walked) => {
      for (const { rows } of page.parts ?? [page]) {
        for (const comparison of store.compare(resource, rows)) findings.note(comparison);
        for (const each of rows.related) if (each.absent) absent.add(each.relation);
      }
      walked.add(page, clock.now());
      progress({ kind: 'page', resource, records: page.ids.length });
    },
  });
  if (verdict.kind === 'incomplete') return { findings, problem: verdict.why };
  findings.keepSeen(walk.ids);
  const unseen = store.unseenIds(window, walk.ids);
  const problem = await whyUnproven(ports, window, unseen, walk.ids.size > 0);
  if (problem === null) for (const id of unseen) findings.extra.add(id);
  const isWhole = problem !== null || absent.size === 0;
  return { findings, problem: isWhole ? problem : `the server sends no ${[...absent].join(', ')} with some records` };
}

/** How many rows that were not shown are requested by themselves. */
const maxLooks = 3;

/** Returns why the server may still have the rows that were not shown; null if nothing speaks for it. */
async function whyUnproven(
  { source, resource, signal }: ComparePorts,
  window: Window,
  unseen: readonly RecordKey[],
  showedSome: boolean,
): Promise<string | null> {
  if (unseen.length === 0) return null;
  const rows = counted(unseen.length, 'record');
  // The list may be empty only for a while, as in a deployment.
  if (!showedSome)
    return `the list shows none of the ${rows} that the mirror has here; a sync finds out whether they are gone`;
  for (const id of unseen.slice(0, maxLooks)) {
    const found = await source.look(resource, id, signal);
    // If its creation time has changed, another window shows it.
    if (found.kind !== 'found' || !takes(window, found.record['created_at'])) continue;
    return `the pages did not show ${rows} of the mirror, and the server still has ${id}`;
  }
  return null;
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
