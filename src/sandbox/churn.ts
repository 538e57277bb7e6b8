/** Changes of the data that nobody asked for: what other people do to a server while a client reads it. */
import type { ResourceName } from '../model/resources.ts';
import { dayMs, timestampOf } from '../model/time.ts';
import { insertRecord, removeRecord, updateRecord } from './editing.ts';
import type { JsonRecord } from './serialise.ts';
import type { SandboxState } from './state.ts';

export interface ChurnCounts {
  readonly inserts?: number;
  readonly updates?: number;
  readonly deletes?: number;
  /** Probability that an inserted record has its creation in the past. */
  readonly backdated?: number;
}

/** A record at random, or undefined where there is none. */
function anyRecord(state: SandboxState, resource: ResourceName): JsonRecord | undefined {
  const table = state.tables[resource];
  return table.from(1 + state.churn.below(table.lastId())) ?? table.from(1);
}

function createdAt(state: SandboxState, resource: ResourceName, backdated: number): string | undefined {
  const { churn } = state;
  if (churn.chance(backdated)) {
    const ms = state.clock.now() - churn.below(1_000 * dayMs);
    return timestampOf(Math.floor(ms / 1_000) * 1_000);
  }
  if (!churn.chance(state.behaviour.ties)) return undefined;
  const last = state.tables[resource].from(state.tables[resource].lastId());
  return typeof last?.['created_at'] === 'string' ? last['created_at'] : undefined;
}

function touch(state: SandboxState, resource: ResourceName, record: JsonRecord): void {
  const { churn } = state;
  const id = record['id'] as number;
  switch (resource) {
    case 'users': {
      const balance = (churn.below(50_000) - 1_000) / 100;
      const changes = churn.chance(0.5) ? { balance } : { status: churn.pick(['active', 'suspended', 'banned']) };
      updateRecord(state, resource, id, changes);
      return;
    }
    case 'packages':
      updateRecord(state, resource, id, {
        global_quantity: churn.below(500),
        status: churn.pick(['active', 'restricted']),
      });
      return;
    case 'emails':
      updateRecord(state, resource, id, { is_sent: 1, resent: churn.below(5) });
      return;
    case 'coupons':
      updateRecord(state, resource, id, { allowed_uses: churn.below(1_000) });
  }
}

/** Makes so many changes at random places; says how many were made. */
export function churnNow(state: SandboxState, resource: ResourceName, counts: ChurnCounts): number {
  let changes = 0;
  for (let left = counts.inserts ?? 0; left > 0; left -= 1) {
    const at = createdAt(state, resource, counts.backdated ?? 0);
    insertRecord(state, resource, at === undefined ? {} : { created_at: at });
    changes += 1;
  }
  for (let left = counts.updates ?? 0; left > 0; left -= 1) {
    const record = anyRecord(state, resource);
    if (record === undefined) break;
    touch(state, resource, record);
    changes += 1;
  }
  for (let left = counts.deletes ?? 0; left > 0; left -= 1) {
    const record = anyRecord(state, resource);
    if (record === undefined) break;
    removeRecord(state, resource, record['id'] as number);
    changes += 1;
  }
  return changes;
}

/** 2.3 is 2, and 3 in three of ten cases. */
function drawn(state: SandboxState, average: number): number {
  return Math.floor(average) + (state.churn.chance(average % 1) ? 1 : 0);
}

/** The changes that the switches bring before a list request. */
export class Churn {
  #made = 0;

  beforeList(state: SandboxState, resource: ResourceName): void {
    const { churn_limit: limit, churn_backdated: backdated, ...behaviour } = state.behaviour;
    if (limit > 0 && this.#made >= limit) return;
    const inserts = drawn(state, behaviour.churn_inserts);
    const updates = drawn(state, behaviour.churn_updates);
    const deletes = drawn(state, behaviour.churn_deletes);
    if (inserts + updates + deletes > 0) {
      this.#made += churnNow(state, resource, { inserts, updates, deletes, backdated });
    }
  }
}
