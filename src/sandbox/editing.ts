/** Changes of records beside the API: what churn does, and what a test sets. */
import { UsageError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { mailHosts, people } from './random.ts';
import { htmlMessage, seedCoupon, sender } from './seed-emails.ts';
import { seedPackage } from './seed-packages.ts';
import { emptyRecord } from './records.ts';
import type { JsonRecord } from './envelope.ts';
import type { SandboxState } from './state.ts';
import { nowStamp, removeFrom, removeUser } from './users.ts';

function plausibleUser(state: SandboxState, id: number): JsonRecord {
  const { churn } = state;
  const each = churn.pick(people);
  const [first, firstPlain] = churn.pick(each.first);
  const [last, lastPlain] = churn.pick(each.last);
  // The id keeps it apart from every other username.
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

/** Adds a record; what is not given is generated. Gives it back whole. Throws UsageError where the id is taken. */
export function insertRecord(state: SandboxState, resource: ResourceName, fields: JsonRecord): JsonRecord {
  const table = state.tables[resource];
  const id = typeof fields['id'] === 'number' ? fields['id'] : table.nextId();
  if (table.body(id) !== undefined) throw new UsageError(`the sandbox already has a record ${id} in ${resource}`);
  const at = typeof fields['created_at'] === 'string' ? fields['created_at'] : nowStamp(state);
  const made = { ...emptyRecord(resource), ...plausible(state, resource, id, at), created_at: at, updated_at: at };
  return table.insert({ ...made, ...fields, id });
}

/** A field set to undefined is taken away. Throws UsageError where there is no such record. */
export function updateRecord(state: SandboxState, resource: ResourceName, id: number, fields: JsonRecord): JsonRecord {
  const table = state.tables[resource];
  const record = table.get(id);
  if (record === undefined) throw new UsageError(`the sandbox has no record ${id} in ${resource}`);
  const updated = { ...record, updated_at: nowStamp(state), ...fields, id };
  table.replace(updated);
  return updated;
}

/** Takes a record away; false where there was none. */
export function removeRecord(state: SandboxState, resource: ResourceName, id: number): boolean {
  return resource === 'users' ? removeUser(state, id) : removeFrom(state, resource, id);
}
