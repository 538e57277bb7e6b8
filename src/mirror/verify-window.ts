/** One window of the mirror against the server, record for record. Records nothing. */
import type { Capabilities } from '../api/capabilities.ts';
import { counted } from '../model/counted.ts';
import { coverageOf, type DayRange, outsideEra } from '../model/era.ts';
import type { RecordKey } from '../model/records.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Clock } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';
import type { VerifyStore } from './store/verify-store.ts';
import type { SyncProgress } from './progress.ts';
import { requestedRange, type Source } from './source.ts';
import { controlsOf, showsDayOf } from './reconcile.ts';
import { Findings } from './verify-findings.ts';
import { problemOf, type WalkPorts, walkUncut, walkWindow } from './walk.ts';

export interface ComparePorts {
  readonly source: Pick<Source, 'page' | 'total'>;
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

/**
 * Compares the window. Where the mirror was written to meanwhile, by a sync that goes on beside, it is looked at a
 * second time, and only what both looks show is a difference.
 */
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
  for (const id of unseen) findings.extra.add(id);
  return { findings, problem: null };
}

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
  // Neighbours that a wide range shows are compared in their own window; what no window owns, wherever it shows.
  const rowsOf = coverageOf(window) === 'days' ? [window, outsideEra] : [window];
  const wanted = { rowsOf, keptOut: store.keptOut(resource) };
  return {
    clock,
    pageSize: paginate,
    expected: window.serverTotal,
    surplus: 0,
    past: 0,
    isOrdered: capabilities.sorts === 'kept',
    read: (page) => source.page(resource, { page, paginate, range }, capabilities, signal, wanted),
    record: (page) => {
      let unusable = 0;
      for (const rows of page.rows) {
        unusable += rows.unusable;
        for (const comparison of store.compare(resource, rows)) findings.note(comparison);
      }
      progress({ kind: 'page', resource, records: page.ids.length });
      return { unusable, twins: [] };
    },
  };
}
