/**
 * `email` and `notify`: send a message to each user. The server's list of sent messages shows whether one was sent: which messages are
 * new since the look before, and which of these is the row's. Section "Settling" of docs/architecture.md.
 */
import type { ApiRecord } from '../../api/body.ts';
import { KeyRefused, RefusedInput } from '../../api/errors.ts';
import type { AnswerKind } from '../../journal/port.ts';
import { type NotificationType, notificationTypes } from '../../model/operations.ts';
import { recordId } from '../../model/records.ts';
import {
  type Action,
  type Judgement,
  type LookingClient,
  type Marks,
  type Observation,
  type Parameters,
  plainAction,
  type Target,
} from '../action.ts';
import type { RowReader } from '../row-reader.ts';
import { shown as inQuotes } from '../sheet/rows.ts';
import { mayHaveLost, tokenAtEnd } from '../token.ts';
import {
  judgeMissingUser,
  nameOf,
  needsPerson,
  observationOfUser,
  readUser,
  relatedIn,
  textOf,
  textsOf,
  userGone,
} from './user-with.ts';

/** What both have in common: nothing of the user changes, and a list shows what was sent. */
function messageAction<P extends Parameters>(
  kind: 'email' | 'notification',
  own: Pick<
    Action<P, ListObservation>,
    'name' | 'summary' | 'operation' | 'columns' | 'examples' | 'readRow' | 'identity' | 'look' | 'body'
  >,
): Action<P, ListObservation> {
  return {
    ...plainAction,
    ...own,
    target: 'user',
    preview: () => ({}),
    marks: ({ hits, marks }) => ({ own: hits.length > 0, others: marks }),
    shown: () => null,
    failedPrecondition: (_, seen) => (seen.found ? null : userGone),
    judge: (target, before, now, response) => judgeList(target, before, now, response, kind),
    unsettled: (seen) =>
      !seen.found || seen.shown ? null : needsPerson(`does not show a user's ${kind}s, so what it reports is believed`),
    inverse: () => notTakenBack(kind),
  };
}

const notTakenBack = (kind: string): string =>
  `${kind === 'email' ? 'an email' : `a ${kind}`} that was sent cannot be taken back`;

interface EmailParameters {
  readonly [name: string]: unknown;
  readonly subject: string;
  readonly content: string;
}

export const email = messageAction<EmailParameters>('email', {
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

  readRow: (row) => ({
    subject: row.withoutToken('subject', row.required('subject')),
    content: row.required('content'),
  }),
  identity: ({ subject, content }) => JSON.stringify([subject, content]),

  look: lookAtEmails,
  body: ({ parameters: { subject, content }, token }) => ({
    subject,
    content: `${content}\n<!-- ${token} -->`,
  }),
});

/** The newest emails: one that was just sent is among them. */
const pageSize = 50;

async function lookAtEmails(
  client: LookingClient,
  target: Target<EmailParameters>,
  signal?: AbortSignal,
): Promise<ListObservation> {
  const record = await readUser(client, target, null, signal);
  const seen = observationOfUser(record);
  if (record === null || target.user === null) return { ...seen, ...hiddenList };
  const sent = await newestEmails(client, target.user, signal);
  if (sent === undefined) return { ...seen, ...hiddenList };
  const same = (each: ApiRecord): boolean => saysTheSame(each, target.parameters);
  return { ...seen, shown: true, ...classify(sent, target.token, same) };
}

/** The user's newest emails; undefined if the server does not list them, ignores the filter, or does not sort. */
async function newestEmails(
  client: LookingClient,
  user: number,
  signal: AbortSignal | undefined,
): Promise<readonly ApiRecord[] | undefined> {
  try {
    const { records } = await client.list(
      'emails',
      {
        filters: [{ key: 'user_id', value: user }],
        sorts: [{ key: 'id', direction: 'desc' }],
        paginate: pageSize,
      },
      signal,
    );
    const ids = records.map(recordId);
    const inOrder = ids.every((id, at) => id !== undefined && (at === 0 || id < (ids[at - 1] ?? 0)));
    return inOrder && records.every((record) => Number(record['user_id']) === user) ? records : undefined;
  } catch (error) {
    if (error instanceof RefusedInput || (error instanceof KeyRefused && error.status === 403)) return undefined;
    throw error;
  }
}

const comment = /<!-- am:[a-z2-7]* -->$/;

function saysTheSame(record: ApiRecord, { subject, content }: EmailParameters): boolean {
  const kept = textOf(record['content'])?.trimEnd().replace(comment, '').trim();
  return textOf(record['subject'])?.trim() === subject && kept === content.trim();
}

interface NotifyParameters {
  readonly [name: string]: unknown;
  readonly type: NotificationType;
  readonly icon: string;
  readonly message: string;
  readonly url: string | null;
}

export const notify = messageAction<NotifyParameters>('notification', {
  name: 'notify',
  summary: 'show notifications to users',
  operation: 'users.send-notification',
  columns: [
    { name: 'type', required: true },
    { name: 'icon', required: true },
    { name: 'message', required: true },
    { name: 'url', required: false },
  ],
  examples: [
    { user_id: '42', type: 'success', icon: 'bx bx-gift', message: 'We have added 5.00 to your balance.', url: '' },
    {
      user_id: '43',
      type: 'warning',
      icon: 'bx bx-time',
      message: 'Maintenance tonight at 22:00 UTC.',
      url: 'https://status.example.com',
    },
  ],

  readRow: readNotification,
  identity: ({ type, icon, message, url }) => JSON.stringify([type, icon, message, url]),

  look: lookAtNotifications,
  body: ({ parameters: { type, icon, message, url } }) => ({ type, icon, message, ...(url === null ? {} : { url }) }),
});

function readNotification(row: RowReader): NotifyParameters {
  const url = row.text('url') ?? null;
  if (url !== null && !URL.canParse(url)) {
    row.problem('url', `${inQuotes(url)} is not an address; write it as https://example.com/page`);
  }
  return {
    type: row.word('type', notificationTypes) ?? 'success',
    icon: row.required('icon'),
    message: row.withoutToken('message', row.required('message')),
    url,
  };
}

async function lookAtNotifications(
  client: LookingClient,
  target: Target<NotifyParameters>,
  signal?: AbortSignal,
): Promise<ListObservation> {
  const record = await readUser(client, target, 'notifications', signal);
  const seen = observationOfUser(record);
  const list = relatedIn(record, 'notifications');
  if (list === undefined) return { ...seen, ...hiddenList };
  const { type, message } = target.parameters;
  const same = (each: ApiRecord): boolean =>
    textOf(each['message'])?.trim() === message && (each['type'] === undefined || each['type'] === type);
  return { ...seen, shown: true, ...classify(list, target.token, same) };
}

/** The user's messages, by the ids of their records; a record without an id stands for itself. */
interface ListObservation extends Observation {
  /** Whether the server shows the list, so that a message that is not in it does not exist. */
  readonly shown: boolean;
  /** Messages with the row's token. */
  readonly hits: readonly string[];
  /** Messages that say what the row says and have no token of another row. */
  readonly alike: readonly string[];
  readonly others: readonly string[];
  /** Tokens of other rows in messages that say what the row says. */
  readonly marks: Marks['others'];
}

const hiddenList = { shown: false, hits: [], alike: [], others: [], marks: [] } as const;

function classify(
  records: readonly ApiRecord[],
  token: string,
  saysTheSame: (record: ApiRecord) => boolean,
): Pick<ListObservation, 'hits' | 'alike' | 'others' | 'marks'> {
  const hits = new Set<string>();
  const alike = new Set<string>();
  const others = new Set<string>();
  const marks: { token: string; at: string | null }[] = [];
  for (const record of records) {
    const texts = textsOf(record);
    const found = texts.flatMap((text) => tokenAtEnd(text) ?? []);
    const name = nameOf(record);
    const same = saysTheSame(record);
    if (found.includes(token)) hits.add(name);
    else if (same && texts.every((text) => mayHaveLost(text, token))) alike.add(name);
    else others.add(name);
    if (same)
      for (const each of found) if (each !== token) marks.push({ token: each, at: textOf(record['created_at']) });
  }
  return { hits: [...hits], alike: [...alike], others: [...others], marks };
}

function judgeList(
  { token }: Pick<Target, 'token'>,
  before: ListObservation,
  now: ListObservation,
  response: AnswerKind | null,
  kind: string,
): Judgement {
  const after = null;
  if (now.hits.length > 1) return overApplied('token', `${now.hits.length} ${kind}s carry ${token}`, kind);
  if (now.hits.length === 1) {
    const [recordId = null] = now.hits;
    return { kind: 'applied', evidence: 'token', after, note: `the ${kind} with ${token} is there`, recordId };
  }
  if (!now.found) return judgeMissingUser(response);
  if (!before.shown || !now.shown) {
    return response === 'accepted'
      ? { kind: 'applied', evidence: 'answer', after, note: `the server said so; it shows no ${kind}s` }
      : { kind: 'unclear', after, note: `the server shows no ${kind}s` };
  }
  const alike = newSince(before, now.alike);
  if (alike.length > 1) return overApplied('record', `${alike.length} new ${kind}s say what the row says`, kind);
  if (alike.length === 1) {
    const [recordId = null] = alike;
    return { kind: 'applied', evidence: 'record', after, note: `a new ${kind} says what the row says`, recordId };
  }
  const others = newSince(before, now.others);
  if (others.length === 0) return { kind: 'absent', evidence: 'record', after, note: `there is no new ${kind}` };
  // The server may have stored the message in other words than it was sent.
  if (response === 'accepted' && others.length === 1) {
    return { kind: 'applied', evidence: 'record', after, note: `one new ${kind}, in other words than were sent` };
  }
  return { kind: 'unclear', after, note: `${others.length} new ${kind}s in other words than were sent` };
}

function overApplied(evidence: 'token' | 'record', note: string, kind: string): Judgement {
  return { kind: 'over_applied', evidence, after: null, note, reversal: notTakenBack(kind) };
}

/**
 * The messages that were not there before. Of a list cut to its newest, an older message may come back into view when another one is
 * deleted: that is not a new one.
 */
function newSince(before: ListObservation, names: readonly string[]): string[] {
  const old = new Set([...before.hits, ...before.alike, ...before.others]);
  const numbers = [...old].map(Number).filter(Number.isSafeInteger);
  const oldest = numbers.length === old.size ? Math.min(...numbers) : -Infinity;
  return names.filter((name) => !old.has(name) && (old.size === 0 || !(Number(name) < oldest)));
}
