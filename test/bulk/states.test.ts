/** Every state of a row with everything that a server can show, continued by `reconcile` and `resume`. */
import { describe, expect, test } from 'vitest';
import { intentStates, isOpen } from '../../src/bulk/intent.ts';
import type { SendingEnd } from '../../src/bulk/send-batch.ts';
import { resolveRow } from '../../src/bulk/resolve.ts';
import type { AnswerKind, IntentFields, IntentState, Journal } from '../../src/journal/port.ts';
import { OperatorError } from '../../src/model/errors.ts';
import { timestampOf } from '../../src/model/time.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { bulkClient, newUser, plan, send, sheetOf } from '../support/bulk.ts';
import { moveTo, newJournal, seenAtHundred } from '../support/journal.ts';
import { startSandbox } from '../support/sandbox.ts';
import { sample } from '../support/part.ts';
import { traceProblems } from '../support/trace.ts';

interface Seen {
  readonly name: string;
  /** Makes the server show this. The balance was 100, and the row adds 5. */
  readonly show: (sandbox: Sandbox, user: number, token: string) => void;
}

function transactions(
  sandbox: Sandbox,
  user: number,
  balance: number,
  descriptions: readonly string[],
  amount = 5,
): void {
  sandbox.control.update('users', user, { balance });
  const records = descriptions.map((description, at) => ({
    id: at + 1,
    user_id: user,
    result: '+',
    amount,
    description,
  }));
  sandbox.control.setRelated('users', user, 'balance_transactions', records);
}

const observations: readonly Seen[] = [
  { name: 'nothing', show: () => {} },
  { name: 'its token', show: (at, user, token) => transactions(at, user, 105, [token]) },
  { name: 'its token, and the balance contradicts', show: (at, user, token) => transactions(at, user, 100, [token]) },
  { name: 'its token twice', show: (at, user, token) => transactions(at, user, 110, [token, token]) },
  { name: 'its token with another amount', show: (at, user, token) => transactions(at, user, 106, [token], 6) },
  { name: 'a transaction like it', show: (at, user) => transactions(at, user, 105, ['Credit']) },
  { name: 'another balance', show: (at, user) => transactions(at, user, 103, []) },
  { name: 'a balance that fits', show: (at, user) => transactions(at, user, 105, []) },
  { name: 'no such user', show: (at, user) => void at.control.remove('users', user) },
  {
    name: 'an error',
    show: (at, user) => at.control.faultNext({ fault: 'error_500', times: 50, match: { path: `/users/${user}` } }),
  },
  {
    name: 'a balance that cannot be read',
    show: (at, user) => void at.control.update('users', user, { balance: 'much' }),
  },
];

const answers: readonly (AnswerKind | null)[] = ['accepted', 'refused', 'lost', null];

/** A batch of one row in that state, sent long ago. */
async function rowIn(sandbox: Sandbox, journal: Journal, state: IntentState, answerKind: AnswerKind | null) {
  const client = bulkClient(sandbox);
  const user = newUser(sandbox, 100);
  const { batch } = await plan(journal, client, sheetOf([[user, 'add', '5', 'Credit']]));
  if (state !== 'planned')
    await journal.claim(batch, { repeatsSince: timestampOf(0), daySince: timestampOf(0) }, () => []);
  const sent: IntentFields = { sentAt: timestampOf(0), seenBefore: seenAtHundred, before: '100.00', answerKind };
  await moveTo(journal, 2, state, (to) => (to === 'sending' ? sent : {}), batch);
  return { client, user, batch, token: (await journal.intent(batch, 2))?.token ?? '' };
}

const stateOf = async (journal: Journal, batch: string): Promise<IntentState> =>
  (await journal.intent(batch, 2))?.state ?? 'invalid';

/** The error with which it ended, returned or thrown; null if it succeeded. */
async function ended(work: Promise<SendingEnd>): Promise<OperatorError | null> {
  try {
    return (await work).error;
  } catch (error) {
    return error as OperatorError;
  }
}

async function resolvedAs(journal: Journal, batch: string): Promise<IntentState | undefined> {
  const found = await journal.batch(batch);
  const resolution = { row: 2, outcome: 'not_applied', resend: false, reason: 'looked' } as const;
  return found === undefined ? undefined : await resolveRow(journal, found, resolution);
}

describe.each(intentStates.filter((state) => state !== 'invalid'))('a row that is %s', (state) => {
  test.each(sample(observations, 1))(
    'and shows $name follows the table of states, and is no dead end',
    async ({ show }) => {
      const sandbox = await startSandbox({ users: 5, emails: 5 });
      const wrong: string[] = [];
      for (const answer of state === 'planned' || state === 'blocked' ? [null] : answers) {
        const { journal } = await newJournal({ now: () => Date.now() });
        const { client, user, batch, token } = await rowIn(sandbox, journal, state, answer);
        show(sandbox, user, token);
        const before = sandbox.control.ledger().length;
        for (const reconcile of [{ reconcile: true }, {}, {}] as const) {
          const end = await ended(send(journal, client, batch, { settleAfterMs: 0, ...reconcile }));
          const now = await stateOf(journal, batch);
          if (end instanceof Error && !(end instanceof OperatorError)) wrong.push(`${answer}: ${String(end)}`);
          if (isOpen(now) && end?.exitCode !== 8) wrong.push(`${answer}: ${now} ended with ${end?.exitCode}`);
        }
        if (isOpen(await stateOf(journal, batch)) && (await resolvedAs(journal, batch)) !== 'not_applied')
          wrong.push('a dead end');
        wrong.push(...(await traceProblems(journal)));
        // Whatever was seen, at most one request is sent, and none if the row was sent before.
        const most = state === 'planned' || state === 'blocked' ? 1 : 0;
        if (sandbox.control.ledger().length - before > most) wrong.push(`${answer}: sent again`);
        sandbox.control.clearFaults();
      }
      expect(wrong).toEqual([]);
    },
  );
});
