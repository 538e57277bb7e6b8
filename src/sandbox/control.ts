/** The control over a running sandbox: what a test, the demo or a rehearsal can see and set. */
import { UsageError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { type Behaviour, behaviourOf, type Chaos, readBehaviour } from './behaviour.ts';
import { type ChurnCounts, churnNow, insertRecord, removeRecord, updateRecord } from './churn.ts';
import type { Parent } from './records.ts';
import { fromJson, type JsonRecord } from './envelope.ts';
import type { ServerParts } from './server.ts';

export type SandboxControl = ReturnType<typeof createControl>;

export function createControl(parts: ServerParts) {
  const { state } = parts;
  const parentOf = (parent: Parent, id: number): JsonRecord => {
    const record = state.tables[parent].get(id);
    if (record === undefined) throw new UsageError(`the sandbox has no record ${id} in ${parent}`);
    return record;
  };
  return {
    behaviour: () => state.behaviour,
    /** Sets some switches; the others stay. Throws a UsageError for an unknown name or an invalid value. */
    setBehaviour: (values: Partial<Behaviour>): Behaviour =>
      (state.behaviour = { ...state.behaviour, ...readBehaviour(values) }),
    setChaos: (chaos: Chaos): Behaviour => (state.behaviour = behaviourOf(chaos)),
    /** The sandbox's time, ms since 1970, from which its clock runs on. */
    now: () => state.clock.now(),
    setClock: (ms: number): void => state.clock.set(ms),
    advanceClock: (ms: number): void => state.clock.set(state.clock.now() + ms),
    /** Returns all records in the order of ids, as the API serves them when nothing goes wrong. */
    dump: (resource: ResourceName) => Array.from(state.tables[resource].everyBody(), fromJson),
    count: (resource: ResourceName) => state.tables[resource].count(),
    get: (resource: ResourceName, id: number) => state.tables[resource].get(id),
    /** Adds a record. Fields that are not given are generated. */
    insert: (resource: ResourceName, fields: JsonRecord = {}) => insertRecord(state, resource, fields),
    /** Changes some fields, and `updated_at` unless it is given. */
    update: (resource: ResourceName, id: number, fields: JsonRecord) => updateRecord(state, resource, id, fields),
    /** Removes a record without the API's rules. Returns false if there is none. */
    remove: (resource: ResourceName, id: number) => removeRecord(state, resource, id),
    /** Returns the related records of a user or a package, oldest first. */
    related: (parent: Parent, id: number, kind: string) => state.related.list(parent, parentOf(parent, id), kind),
    /** Replaces all related records of that kind by these. */
    setRelated: (parent: Parent, id: number, kind: string, records: readonly JsonRecord[]): void => {
      parentOf(parent, id);
      state.related.replace(parent, id, kind, records);
    },
    churn: (resource: ResourceName, counts: ChurnCounts) => churnNow(state, resource, counts),
    /** Returns all writes that were made through the API, in order. */
    ledger: () => state.ledger.entries(),
    requests: () => parts.log.counts(),
    clearRequests: (): void => parts.log.clear(),
  };
}
