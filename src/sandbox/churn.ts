/** Changes records without the API: at random, like other people while a client reads, or exactly as a test says. */
import type { ResourceName } from '../model/resources.ts';
import type { JsonRecord } from './envelope.ts';
import type { SandboxState } from './sandbox.ts';
import { UsageError } from '../model/errors.ts';
import { mailHosts, people } from './random.ts';
import { htmlMessage, seedCoupon, sender, seedPackage } from './seed-records.ts';
import { emptyRecord } from './records.ts';
import { nowStamp, removeUser } from './users.ts';

export interface ChurnCounts {
  readonly inserts?: number;
  readonly updates?: number;
  readonly deletes?: number;
}

function randomRecord(state: SandboxState, resource: ResourceName): JsonRecord | undefined {
  const table = state.tables[resource];
  return table.from(1 + state.churn.below(table.lastId())) ?? table.from(1);
}

/** Some records are created in the same second as the one before. */
function drawCreatedAt(state: SandboxState, resource: ResourceName): JsonRecord {
  if (!state.churn.chance(state.ties)) return {};
  const { created_at } = state.tables[resource].from(state.tables[resource].lastId()) ?? {};
  return typeof created_at === 'string' ? { created_at } : {};
}

function changesAtRandom({ churn }: SandboxState, resource: ResourceName): JsonRecord {
  switch (resource) {
    case 'users': {
      const balance = (churn.below(50_000) - 1_000) / 100;
      return churn.chance(0.5) ? { balance } : { status: churn.pick(['active', 'suspended', 'banned']) };
    }
    case 'packages':
      return { global_quantity: churn.below(500), status: churn.pick(['active', 'restricted']) };
    case 'emails':
      return { is_sent: 1, resent: churn.below(5) };
    case 'coupons':
      return { allowed_uses: churn.below(1_000) };
  }
}

/** Makes the given numbers of changes to random records and returns how many were made. */
export function churnNow(state: SandboxState, resource: ResourceName, counts: ChurnCounts): number {
  const { inserts = 0, updates = 0, deletes = 0 } = counts;
  let changes = 0;
  const times = (count: number, change: (id: number) => unknown): void => {
    for (let left = count; left > 0; left -= 1) {
      const record = randomRecord(state, resource);
      if (record === undefined) return;
      change(record['id'] as number);
      changes += 1;
    }
  };
  for (; changes < inserts; changes += 1) insertRecord(state, resource, drawCreatedAt(state, resource));
  times(updates, (id) => updateRecord(state, resource, id, changesAtRandom(state, resource)));
  times(deletes, (id) => removeRecord(state, resource, id));
  return changes;
}

/** Rounds at random: 2.3 becomes 3 in three of ten cases, otherwise 2. */
function roundAtRandom(state: SandboxState, average: number): number {
  return Math.floor(average) + (state.churn.chance(average % 1) ? 1 : 0);
}

/** Makes the changes that the switches set for the time before a list is served. */
export function churnBefore(state: SandboxState, resource: ResourceName): void {
  const { behaviour } = state;
  churnNow(state, resource, {
    inserts: roundAtRandom(state, behaviour.churn_inserts),
    updates: roundAtRandom(state, behaviour.churn_updates),
    deletes: roundAtRandom(state, behaviour.churn_deletes),
  });
}

function plausibleUser(state: SandboxState, id: number): JsonRecord {
  const { churn } = state;
  const each = churn.pick(people);
  const [first, firstPlain] = churn.pick(each.first);
  const [last, lastPlain] = churn.pick(each.last);
  // The id makes the username unique.
  const username = `${firstPlain}.${lastPlain}.${id}`;
  return {
    username,
    email: `${username}@${churn.pick(mailHosts)}`,
    first_name: first,
    last_name: last,
    status: 'active',
    balance: churn.below(10_000) / 100,
    is_subscribed: churn.below(2),
    visibility: 'online',
    language: each.language,
  };
}

function plausible(state: SandboxState, resource: ResourceName, id: number, at: string): JsonRecord {
  switch (resource) {
    case 'users':
      return { ...plausibleUser(state, id), last_seen_at: at, last_login_at: at };
    case 'packages':
      return seedPackage(state.churn.word(), id, at, at);
    case 'coupons':
      return seedCoupon(state.churn.word(), id, { created: Date.parse(at), createdAt: at, updatedAt: at }, 0);
    case 'emails': {
      const user = state.tables.users.from(1 + state.churn.below(state.tables.users.lastId())) ?? {};
      return {
        user_id: user['id'] ?? 1,
        sender,
        receiver: user['email'] ?? 'somebody@mail.example',
        subject: `Note ${id}`,
        content: htmlMessage('A note for you.'),
        is_sent: state.churn.below(2),
      };
    }
  }
}

/** Adds a record, generates the fields that are not given, and returns it. Throws a UsageError if the id is taken. */
export function insertRecord(state: SandboxState, resource: ResourceName, fields: JsonRecord): JsonRecord {
  const table = state.tables[resource];
  const id = typeof fields['id'] === 'number' ? fields['id'] : table.nextId();
  if (table.body(id) !== undefined) throw new UsageError(`the sandbox already has a record ${id} in ${resource}`);
  const at = typeof fields['created_at'] === 'string' ? fields['created_at'] : nowStamp(state);
  const made = { ...emptyRecord(resource), ...plausible(state, resource, id, at), created_at: at, updated_at: at };
  return table.insert({ ...made, ...fields, id });
}

/** Changes fields of a record; undefined removes a field. Throws a UsageError if there is no such record. */
export function updateRecord(state: SandboxState, resource: ResourceName, id: number, fields: JsonRecord): JsonRecord {
  const table = state.tables[resource];
  const record = table.get(id);
  if (record === undefined) throw new UsageError(`the sandbox has no record ${id} in ${resource}`);
  const updated = { ...record, updated_at: nowStamp(state), ...fields, id };
  table.replace(updated);
  return updated;
}

/** Removes a record. Returns false if there was none. */
export function removeRecord(state: SandboxState, resource: ResourceName, id: number): boolean {
  return resource === 'users' ? removeUser(state, id) : state.tables[resource].remove(id);
}
