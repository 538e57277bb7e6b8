/** `update`: changes names, user names and languages. The fields themselves show the outcome. */
import type { AnswerKind } from '../../journal/port.ts';
import {
  type Action,
  type Judgement,
  type KnownUser,
  type LookingClient,
  plainAction,
  type Preview,
  type Observation,
  type Target,
} from '../action.ts';
import { columnsFor, readFields, type RowReader } from '../row-reader.ts';
import {
  differenceOfForm,
  judgeMissingUser,
  observationOfUser,
  readUser,
  textOf,
  userGone,
  type Values,
} from './user-with.ts';

const fieldNames = ['first_name', 'last_name', 'username', 'language'] as const;
type FieldName = (typeof fieldNames)[number];

interface UpdateParameters {
  readonly [name: string]: unknown;
  /** The row is sent only if the fields are these: set for a row that takes another back. */
  readonly expected: Values | null;
}

interface UpdateObservation extends Observation {
  /** The fields that the row changes. */
  readonly values: Values;
}

export const update: Action<UpdateParameters, UpdateObservation> = {
  ...plainAction,
  name: 'update',
  summary: 'change names, user names and languages',
  operation: 'users.update',
  columns: columnsFor('users.update'),
  examples: [
    { user_id: '42', first_name: 'Anna', last_name: 'Lind', language: '' },
    { user_id: '43', first_name: '', last_name: '', language: 'fr' },
  ],
  target: 'user',
  userFields: fieldNames,

  readRow,
  preview: previewOf,
  identity: (parameters) => JSON.stringify(changesOf(parameters)),

  look,
  shown: ({ found, values }) => (found ? JSON.stringify(values) : null),
  failedPrecondition: ({ parameters: { expected } }, seen, plannedBefore) => {
    if (!seen.found) return userGone;
    const wanted = expected ?? (plannedBefore === null ? null : (JSON.parse(plannedBefore) as Values));
    // An earlier row of the sheet may have set the fields, which the server keeps in another form.
    if (wanted === null || differenceOfForm(wanted, seen.values) !== undefined) return null;
    return `the user has ${JSON.stringify(seen.values)}, and had ${JSON.stringify(wanted)} in the plan`;
  },
  body: ({ parameters }) => changesOf(parameters),
  judge,
  inverse: ({ parameters }, { before, after }) => {
    if (before === null || after === null) return 'what the fields were before is not known';
    const old = JSON.parse(before) as Values;
    const empty = namesIn(parameters).find((name) => (old[name] ?? '') === '');
    if (empty !== undefined) return `${empty} was empty, and cannot be emptied again`;
    return { ...old, expected: JSON.parse(after) as Values };
  },
};

function namesIn(parameters: UpdateParameters): FieldName[] {
  return fieldNames.filter((name) => typeof parameters[name] === 'string');
}

function changesOf(parameters: UpdateParameters): Record<string, string> {
  return Object.fromEntries(namesIn(parameters).map((name) => [name, String(parameters[name])]));
}

/** The fields of a record that the row changes, always in the same order. Empty text counts as missing. */
function valuesOf(parameters: UpdateParameters, record: Readonly<Record<string, unknown>>): Values {
  return Object.fromEntries(namesIn(parameters).map((name) => [name, textOf(record[name]) || null]));
}

function readRow(row: RowReader): UpdateParameters {
  const fields = readFields(row, 'users.update');
  const nothing = namesIn({ ...fields, expected: null }).length === 0;
  if (nothing && row.problems.length === 0) row.problem(null, 'the row changes nothing: all of its values are empty');
  return { ...fields, expected: null };
}

function previewOf(parameters: UpdateParameters, user: KnownUser): Preview {
  const before = valuesOf(parameters, user.fields);
  const changes = changesOf(parameters);
  const { expected } = parameters;
  const moved = expected !== null && JSON.stringify(expected) !== JSON.stringify(before);
  const same = JSON.stringify(before) === JSON.stringify(changes);
  return {
    before: JSON.stringify(before),
    after: JSON.stringify(changes),
    ...(moved && {
      problem: { column: null, problem: `user ${user.id} was changed since: ${JSON.stringify(before)}` },
    }),
    ...(same && { warning: `user ${user.id} is so already` }),
    user: {
      ...user,
      ...(changes['username'] !== undefined && { username: changes['username'] }),
      fields: { ...user.fields, ...changes },
    },
  };
}

async function look(
  client: LookingClient,
  target: Target<UpdateParameters>,
  signal?: AbortSignal,
): Promise<UpdateObservation> {
  const record = await readUser(client, target, null, signal);
  return { ...observationOfUser(record), values: record === null ? {} : valuesOf(target.parameters, record) };
}

function judge(
  { parameters }: Target<UpdateParameters>,
  before: UpdateObservation,
  now: UpdateObservation,
  response: AnswerKind | null,
): Judgement {
  if (!now.found) return judgeMissingUser(response);
  const after = JSON.stringify(now.values);
  const difference = differenceOfForm(changesOf(parameters), now.values);
  const isAsBefore = after === JSON.stringify(before.values);
  // If nothing changed, a difference in form alone may be what the row should have changed: then only the server knows.
  if (difference === null || (difference !== undefined && (!isAsBefore || response === 'accepted'))) {
    return { kind: 'applied', evidence: 'record', after, note: 'the fields are as the row says', difference };
  }
  if (isAsBefore) {
    return { kind: 'absent', evidence: 'record', after, note: 'the fields are as they were before' };
  }
  return { kind: 'unclear', after, note: 'the fields are neither as they were nor as the row says' };
}
