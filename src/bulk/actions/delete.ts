/** `delete`: deletes users for good. The proof is a 404 for the user, beside another user who is found (`lookAndJudge`). */
import { type Action, plainAction, type Observation } from '../action.ts';
import { moneyOf } from '../../model/money.ts';
import { columnsFor, readYes, type RowReader } from '../row-reader.ts';
import { observationOfUser, readUser, userGone } from './user-with.ts';

interface DeleteParameters {
  readonly [name: string]: unknown;
  /** Delete the user despite orders and punishments. */
  readonly force: boolean;
}

interface DeleteObservation extends Observation {
  readonly balance: string | null;
}

/** Not called `delete`, which is a keyword. */
export const deletion: Action<DeleteParameters, DeleteObservation> = {
  ...plainAction,
  name: 'delete',
  summary: 'delete users for good',
  operation: 'users.delete',
  columns: columnsFor('users.delete'),
  examples: [
    { user_id: '42', force: '' },
    { user_id: '43', force: '' },
  ],
  target: 'user',
  // The server refuses if the user has orders or punishments.
  refusedForItself: true,

  readRow,
  preview: (_, user) => {
    const { id, balance } = user;
    const rich = balance !== null && moneyOf(balance) !== '0.00';
    return {
      before: describeUser(user),
      after: 'deleted',
      ...(rich && { warning: `user ${id} has a balance of ${balance}, which will be lost` }),
    };
  },
  identity: ({ force }) => JSON.stringify([force ?? false]),

  look: async (client, target, signal) => {
    const record = await readUser(client, target, null, signal);
    return { ...observationOfUser(record), balance: moneyOf(record?.['balance']) };
  },
  shown: (seen) => (seen.found ? describeUser(seen) : 'deleted'),
  failedPrecondition: (_, seen) => (seen.found ? null : userGone),
  body: ({ parameters: { force } }) => (force ? { force } : {}),
  judge: (_, __, now) => {
    if (!now.found) return { kind: 'applied', evidence: 'record', after: 'deleted', note: 'the user is gone: 404' };
    return { kind: 'absent', evidence: 'record', after: describeUser(now), note: 'the user is still there' };
  },
  inverse: () => 'a user who was deleted does not come back',
};

function describeUser({ email, username, balance }: Omit<DeleteObservation, 'found'>): string {
  const name = email ?? username ?? 'a user without a name';
  return balance === null ? name : `${name}, balance ${balance}`;
}

function readRow(row: RowReader): DeleteParameters {
  const force = readYes(row, 'force') ?? false;
  if (force && !row.options.allowForce) {
    row.problem('force', 'this would delete the user despite orders and punishments; it also needs `--allow-force`');
  }
  return { force };
}
