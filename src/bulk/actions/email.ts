/** `email`: sends each user an email. The token stands in a comment at the end of its HTML, which no reader sees. */
import type { ApiRecord } from '../../api/envelope.ts';
import { KeyRefused, RefusedInput, ServerFailed } from '../../api/errors.ts';
import { recordId } from '../../model/records.ts';
import type { Action, LookingClient, Target } from '../action.ts';
import { hiddenList, judgeList, type ListSighting, marksOf, sortedOut } from './sent-list.ts';
import { readUser, sightingOfUser, textOf } from './user-with.ts';

export interface EmailParameters {
  readonly [name: string]: unknown;
  readonly subject: string;
  readonly content: string;
}

export const email: Action<EmailParameters, ListSighting> = {
  name: 'email',
  summary: 'send emails to users',
  operation: 'users.send-email',
  columns: [
    { name: 'subject', required: true },
    { name: 'content', required: true },
  ],
  examples: [
    { user_id: '42', subject: 'Credit for the outage', content: '<p>We have added 5.00 to your balance.</p>' },
    { user_id: '43', subject: 'Credit for the outage', content: '<p>We have added 7.50 to your balance.</p>' },
  ],
  target: 'user',
  userFields: [],
  typed: 'rows',

  readRow: (row) => ({
    subject: row.withoutToken('subject', row.required('subject')),
    content: row.required('content'),
  }),
  preview: (_, user) => ({ before: null, after: null, change: null, problems: [], warnings: [], user }),
  identity: ({ subject, content }) => JSON.stringify([subject, content]),

  look,
  marks: marksOf,
  shown: () => null,
  hindrance: (_, seen) => (seen.found ? null : 'the user is not there any more'),
  request: ({ user, parameters: { subject, content }, token }) => ({
    operation: 'users.send-email',
    user: user ?? undefined,
    body: JSON.stringify({ subject, content: `${content}\n<!-- ${token} -->` }),
  }),
  judge: (target, before, now, answer) => judgeList(target, before, now, answer, 'email'),
  unsettled: (seen) =>
    !seen.found || seen.shown
      ? null
      : 'this server does not show which emails a user was sent: its success is believed as it is told, and where an ' +
        'answer is lost, a person must find out what happened',
  inverse: () => 'an email that was sent cannot be taken back',
};

/** The newest, of which any that was just sent is one. */
const pageSize = 50;

async function look(
  client: LookingClient,
  target: Target<EmailParameters>,
  signal?: AbortSignal,
): Promise<ListSighting> {
  const record = await readUser(client, target, null, signal);
  const seen = sightingOfUser(record);
  if (record === null || target.user === null) return { ...seen, ...hiddenList };
  const user = target.user;
  const { subject } = target.parameters;
  const same = (each: ApiRecord): boolean => saysTheSame(each, target.parameters);
  const narrow = await listed(client, user, [{ key: 'subject', value: subject }], signal);
  if (narrow !== undefined) {
    const found = sortedOut(narrow, target.token, same);
    if (found.hits.length > 0) return { ...seen, shown: true, ...found };
  }
  // Under another subject, too: a server may have changed that.
  const all = await listed(client, user, [], signal);
  if (all === undefined) return { ...seen, ...hiddenList };
  return { ...seen, shown: true, ...sortedOut([...all, ...(narrow ?? [])], target.token, same) };
}

/** The user's newest emails; undefined where the server does not tell them, or others besides. */
async function listed(
  client: LookingClient,
  user: number,
  more: readonly { readonly key: 'subject'; readonly value: string }[],
  signal: AbortSignal | undefined,
): Promise<readonly ApiRecord[] | undefined> {
  try {
    const { records } = await client.list(
      'emails',
      {
        filters: [{ key: 'user_id', value: user }, ...more],
        sorts: [{ key: 'id', direction: 'desc' }],
        paginate: pageSize,
      },
      signal,
    );
    const ids = records.map(recordId);
    const inOrder = ids.every((id, at) => id !== undefined && (at === 0 || id < (ids[at - 1] ?? 0)));
    return inOrder && records.every((record) => Number(record['user_id']) === user) ? records : undefined;
  } catch (error) {
    // A filter that the server cannot do is one thing; a server that is down would not answer without it either.
    const refused = error instanceof RefusedInput || (error instanceof KeyRefused && error.status === 403);
    if (refused || (more.length > 0 && error instanceof ServerFailed)) return undefined;
    throw error;
  }
}

const comment = /\s*<!-- am:[a-z2-7]* -->\s*$/;

function saysTheSame(record: ApiRecord, { subject, content }: EmailParameters): boolean {
  const kept = textOf(record['content'])?.replace(comment, '').trim();
  return textOf(record['subject'])?.trim() === subject && kept === content.trim();
}
