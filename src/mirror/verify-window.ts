/** One window of the mirror against the server, record for record. Records nothing. */
import type { Capabilities } from '../api/capabilities.ts';
import { coverageOf, outsideEra } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Clock } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';
import type { VerifyStore } from './store/verify-types.ts';
import type { SyncProgress } from './progress.ts';
import { askedRange } from './range.ts';
import type { Source } from './source.ts';
import { Findings } from './verify-findings.ts';
import { problemOf, type WalkPorts } from './walk.ts';
import { insistOnWindow, walkWindow } from './whole-walk.ts';

export interface ComparePorts {
  readonly source: Pick<Source, 'page' | 'total'>;
  readonly store: VerifyStore;
  readonly clock: Clock;
  readonly resource: ResourceName;
  readonly capabilities: Capabilities;
  readonly signal: AbortSignal;
  readonly progress: SyncProgress;
}

export interface WindowComparison {
  readonly findings: Findings;
  /** Why the window could not be compared whole; then rows without a record are not among the findings. */
  readonly problem: string | null;
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
  return { findings: first.findings.confirmedBy(second.findings), problem: second.problem };
}

async function look(ports: ComparePorts, window: Window): Promise<WindowComparison> {
  const { store, capabilities } = ports;
  const findings = new Findings();
  const portsOf = (pageSize: number) => walkPorts(ports, window, pageSize, findings);
  const walked = await walkWindow(portsOf, capabilities.pageSize, Infinity);
  const verdict = await insistOnWindow(portsOf, capabilities.pageSize, walked);
  if (verdict.kind !== 'settled') return { findings, problem: problemOf(verdict) };
  findings.keepSeen(verdict.seen);
  for (const id of store.unseenIds(window, verdict.seen)) findings.extra.add(id);
  return { findings, problem: null };
}

function walkPorts(ports: ComparePorts, window: Window, paginate: number, findings: Findings): WalkPorts {
  const { source, store, resource, capabilities, clock, progress, signal } = ports;
  const range = askedRange(window, capabilities);
  // Neighbours that a wide range shows are compared in their own window; what no window owns, wherever it shows.
  const rowsOf = coverageOf(window) === 'days' ? [window, outsideEra] : [window];
  const wanted = { rowsOf, keptOut: store.keptOut(resource) };
  return {
    clock,
    pageSize: paginate,
    expected: window.serverTotal,
    surplus: 0,
    past: 0,
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
