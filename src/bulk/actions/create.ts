/** `create`: makes users. They have no place for a token, so they are looked for by email and user name before and after. */
import type { ApiRecord } from '../../api/body.ts';
import type { AnswerKind } from '../../journal/port.ts';
import { nameKey, sameName, spellingsOf } from '../../model/identity.ts';
import { recordId } from '../../model/records.ts';
import {
  type Action,
  type Judgement,
  type LookingClient,
  plainAction,
  type Preview,
  type Observation,
  type Target,
} from '../action.ts';
import { columnsFor, readFields, type RowReader } from '../row-reader.ts';
import { shown as inQuotes } from '../sheet/rows.ts';
import { differenceOfForm, needsPerson, textOf } from './user-with.ts';

interface CreateParameters {
  readonly [name: string]: unknown;
  readonly email: string;
  readonly username: string;
}

interface CreateObservation extends Observation {
  /** Whether the server finds users by email and user name, so that a user who is not found does not exist. */
  readonly reported: boolean;
  /** Ids of users with the email or the user name. */
  readonly taken: readonly number[];
  /** Those of them who match the row in every field that can be read, with what the server keeps in another form. */
  readonly same: readonly { readonly id: number; readonly difference: string | null }[];
}

export const create: Action<CreateParameters, CreateObservation> = {
  ...plainAction,
  name: 'create',
  summary: 'make new users',
  operation: 'users.create',
  columns: columnsFor('users.create'),
  examples: [
    example('Anna', 'Lind', 'anna.lind'),
    { ...example('Bo', 'Berg', 'bo.berg'), welcome_email: 'yes', 'address[city]': 'Uppsala' },
  ],
  target: 'new',

  readRow,
  newKeys: ({ email, username }) => [
    { column: 'email', value: email },
    { column: 'username', value: username },
  ],
  newSubject: ({ email }) => nameKey(email),
  preview: ({ email, username }, user): Preview => {
    const column = sameName(user.email, email) ? 'email' : 'username';
    const value = column === 'email' ? email : username;
    return { problem: { column, problem: `user ${user.id} has the ${column} ${inQuotes(value)} already` } };
  },
  identity: (parameters) => JSON.stringify(parameters),

  look,
  shown: () => null,
  failedPrecondition: (_, { taken }) =>
    taken.length === 0 ? null : `the email or the user name is taken by user ${taken.join(' and ')}`,
  body: ({ parameters }) => bodyOf(parameters),
  judge,
  unsettled: (seen) => (seen.reported ? null : needsPerson('does not find users by email and user name')),
  inverse: () => 'a user who was made is not deleted by an undo',
};

function example(first: string, last: string, name: string): Record<string, string> {
  return {
    first_name: first,
    last_name: last,
    username: name,
    email: `${name}@example.com`,
    language: 'en',
    welcome_email: 'no',
    'address[city]': '',
  };
}

function readRow(row: RowReader): CreateParameters {
  const fields = readFields(row, 'users.create');
  const email = String(fields['email'] ?? '');
  if (email !== '' && !/^[^\s@]+@[^\s@]+$/.test(email))
    row.problem('email', `${inQuotes(email)} is not an email address`);
  return { ...fields, email, username: String(fields['username'] ?? '') };
}

/** The body of the request: `address[city]` becomes the key `city` of the object `address`. */
function bodyOf(parameters: CreateParameters): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(parameters)) {
    const [outer = '', inner] = name.replace(']', '').split('[');
    body[outer] = inner === undefined ? value : { ...(body[outer] as object | undefined), [inner]: value };
  }
  return body;
}

/** Large enough for everyone with one email, and with similar ones if the filter is not exact. */
const pageSize = 100;

async function look(
  client: LookingClient,
  { parameters }: Target<CreateParameters>,
  signal?: AbortSignal,
): Promise<CreateObservation> {
  const found = new Map<number, ApiRecord>();
  let reported = true;
  const keys = (['email', 'username'] as const).flatMap((key) =>
    // A server's filter may distinguish upper and lower case although it refuses two emails that differ only in that.
    spellingsOf([parameters[key]]).map((wanted) => ({ key, wanted })),
  );
  for (const { key, wanted } of keys) {
    const value = nameKey(wanted);
    const filters = [{ key, value: wanted }];
    const { records, total } = await client.list('users', { filters, paginate: pageSize }, signal);
    // If others are shown, the server ignores the filter, and the user may be on another page.
    const fits = records.every((record) => nameKey(textOf(record[key]) ?? '').includes(value));
    reported &&= fits && total <= records.length;
    for (const record of records) {
      const id = recordId(record);
      if (id !== undefined && sameName(textOf(record[key]), wanted)) found.set(id, record);
    }
  }
  const sent = Object.fromEntries(compared.map((name) => [name, String(parameters[name])]));
  const same = [...found].flatMap(([id, record]) => {
    const there = Object.fromEntries(compared.map((name) => [name, textOf(record[name])]));
    const difference = differenceOfForm(sent, there);
    return difference === undefined ? [] : [{ id, difference }];
  });
  // Email and user name are null: a new user has no key that must still match.
  return { found: found.size > 0, email: null, username: null, reported, taken: [...found.keys()], same };
}

const compared = ['email', 'username', 'first_name', 'last_name'] as const;

function judge(
  _target: Target<CreateParameters>,
  before: CreateObservation,
  now: CreateObservation,
  response: AnswerKind | null,
): Judgement {
  const after = null;
  const made = now.same.filter(({ id }) => !before.taken.includes(id));
  const [first, second] = made;
  if (second !== undefined) {
    const note = `made ${made.length} times: users ${made.map(({ id }) => id).join(', ')}`;
    const reversal = `\`admin-mirror users delete ${second.id}\``;
    return { kind: 'over_applied', evidence: 'record', after, note, reversal };
  }
  if (first !== undefined) {
    const { id, difference } = first;
    const note = `the new user is ${id}`;
    return { kind: 'applied', evidence: 'record', after, note, recordId: String(id), difference };
  }
  if (!now.reported) {
    const note = 'the server does not find users by email and user name';
    return response === 'accepted'
      ? { kind: 'applied', evidence: 'answer', after, note: `the server said so; ${note}` }
      : { kind: 'unclear', after, note };
  }
  const others = now.taken.filter((id) => !before.taken.includes(id));
  if (others.length === 0) return { kind: 'absent', evidence: 'record', after, note: 'there is no such user' };
  const note = `user ${others.join(' and ')} has the email or the user name, and differs from the row`;
  return response === 'refused'
    ? { kind: 'absent', evidence: 'record', after, note }
    : { kind: 'unclear', after, note };
}
