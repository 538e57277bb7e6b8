/** The sandbox's other side: what a test, or a person through the control routes, can see and set. */
import { UsageError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { parseDay, parseInstant, startOfDay } from '../model/time.ts';
import { type Behaviour, readBehaviour } from './behaviour.ts';
import { behaviourOf, type Chaos } from './chaos.ts';
import { type ChurnCounts, churnNow } from './churn.ts';
import { insertRecord, removeRecord, updateRecord } from './editing.ts';
import type { ScriptedFault } from './faults.ts';
import type { LedgerEntry } from './ledger.ts';
import type { Parent } from './related.ts';
import type { RequestCounts } from './request-log.ts';
import { fromJson, type JsonRecord } from './serialise.ts';
import type { ServerParts } from './server.ts';

export interface ClockReading {
  /** The sandbox's time, in ms since 1970. */
  readonly now: number;
  readonly frozen: boolean;
}

export interface SandboxControl {
  behaviour(): Behaviour;
  /** Sets some switches; the others stay. Throws UsageError for a name or value that is not known. */
  setBehaviour(values: Partial<Behaviour>): Behaviour;
  /** Sets every switch as the preset has it. */
  setChaos(chaos: Chaos): Behaviour;
  clock(): ClockReading;
  /** Sets the time: ms since 1970, or ISO 8601. It runs on from there unless frozen. */
  setClock(time: number | string, options?: { readonly frozen?: boolean }): ClockReading;
  advanceClock(ms: number): ClockReading;
  /** Every record in the order of ids, as the API serves it when nothing goes wrong. */
  dump(resource: ResourceName): JsonRecord[];
  count(resource: ResourceName): number;
  get(resource: ResourceName, id: number): JsonRecord | undefined;
  /** Adds a record; what is not given is made up. */
  insert(resource: ResourceName, fields?: JsonRecord): JsonRecord;
  /** Changes some fields, and `updated_at` with them. */
  update(resource: ResourceName, id: number, fields: JsonRecord): JsonRecord;
  /** Takes a record away without asking the API's rules; false where there is none. */
  remove(resource: ResourceName, id: number): boolean;
  /** Related records of a user or a package, oldest first. */
  related(parent: Parent, id: number, kind: string): JsonRecord[];
  /** Puts exactly these in the place of all of that kind. */
  setRelated(parent: Parent, id: number, kind: string, records: readonly JsonRecord[]): void;
  /** Changes so many records at random. */
  churn(resource: ResourceName, counts: ChurnCounts): number;
  /** Exact faults for the next requests that match. */
  faultNext(faults: ScriptedFault | readonly ScriptedFault[]): void;
  clearFaults(): void;
  /** Makes the writes now that `commit_late` has put off; says how many. */
  commitLate(): number;
  /** Every write that was made through the API, in order. */
  ledger(): LedgerEntry[];
  requests(): RequestCounts;
  clearRequests(): void;
}

function readTime(time: number | string): number {
  if (typeof time === 'number' && Number.isFinite(time)) return time;
  const text = String(time);
  const day = parseDay(text);
  const ms = day === undefined ? parseInstant(text) : startOfDay(day);
  if (ms === undefined) {
    throw new UsageError(`the sandbox's clock was set to "${text}", which is no time`, {
      advice: 'Write it like 2026-03-11T10:00:00Z, or as milliseconds since 1970.',
    });
  }
  return ms;
}

/** The control over a running sandbox. */
export function createControl(parts: ServerParts): SandboxControl {
  const { state } = parts;
  const reading = (): ClockReading => ({ now: state.clock.now(), frozen: state.clock.frozen() });
  const parentOf = (parent: Parent, id: number): JsonRecord => {
    const record = state.tables[parent].get(id);
    if (record === undefined) throw new UsageError(`the sandbox has no record ${id} in ${parent}`);
    return record;
  };
  return {
    behaviour: () => state.behaviour,
    setBehaviour(values) {
      state.behaviour = { ...state.behaviour, ...readBehaviour(values) };
      return state.behaviour;
    },
    setChaos(chaos) {
      state.behaviour = behaviourOf(chaos);
      return state.behaviour;
    },
    clock: reading,
    setClock(time, options = {}) {
      state.clock.set(readTime(time), options.frozen ?? false);
      return reading();
    },
    advanceClock(ms) {
      state.clock.advance(ms);
      return reading();
    },
    dump: (resource) => Array.from(state.tables[resource].everyBody(), fromJson),
    count: (resource) => state.tables[resource].count(),
    get: (resource, id) => state.tables[resource].get(id),
    insert: (resource, fields = {}) => insertRecord(state, resource, fields),
    update: (resource, id, fields) => updateRecord(state, resource, id, fields),
    remove: (resource, id) => removeRecord(state, resource, id),
    related: (parent, id, kind) => state.related.list(parent, parentOf(parent, id), kind),
    setRelated(parent, id, kind, records) {
      parentOf(parent, id);
      state.related.replace(parent, id, kind, records);
    },
    churn: (resource, counts) => churnNow(state, resource, counts),
    faultNext: (faults) => parts.faults.script(Array.isArray(faults) ? faults : [faults as ScriptedFault]),
    clearFaults: () => parts.faults.clear(),
    commitLate: () => parts.late.now(),
    ledger: () => state.ledger.entries(),
    requests: () => parts.log.counts(),
    clearRequests: () => parts.log.clear(),
  };
}
