/**
 * `notify`: shows each user a notification. It has no place for a token that its reader would not see: what tells
 * whether it was made is a new notification with the same words.
 */
import { notificationTypes, type NotificationType } from '../../model/operations.ts';
import type { ApiRecord } from '../../api/envelope.ts';
import type { Action, LookingClient, Target } from '../action.ts';
import type { RowReader } from '../row-reader.ts';
import { shown as inQuotes } from '../sheet/shown.ts';
import { hiddenList, judgeList, type ListSighting, marksOf, sortedOut } from './sent-list.ts';
import { readUser, relatedIn, sightingOfUser, textOf } from './user-with.ts';

export interface NotifyParameters {
  readonly [name: string]: unknown;
  readonly type: NotificationType;
  readonly icon: string;
  readonly message: string;
  readonly url: string | null;
}

export const notify: Action<NotifyParameters, ListSighting> = {
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
  target: 'user',
  userFields: [],
  typed: 'rows',

  readRow,
  preview: (_, user) => ({ before: null, after: null, change: null, problems: [], warnings: [], user }),
  identity: ({ type, icon, message, url }) => JSON.stringify([type, icon, message, url]),

  look,
  marks: marksOf,
  shown: () => null,
  hindrance: (_, seen) => (seen.found ? null : 'the user is not there any more'),
  request: ({ user, parameters: { type, icon, message, url } }) => ({
    operation: 'users.send-notification',
    user: user ?? undefined,
    body: JSON.stringify({ type, icon, message, ...(url === null ? {} : { url }) }),
  }),
  judge: (target, before, now, answer) => judgeList(target, before, now, answer, 'notification'),
  unsettled: (seen) =>
    !seen.found || seen.shown
      ? null
      : "this server does not show a user's notifications: its success is believed as it is told, and where an answer " +
        'is lost, a person must find out what happened',
  inverse: () => 'a notification that was sent cannot be taken back',
};

function readRow(row: RowReader): NotifyParameters {
  const url = row.text('url') ?? null;
  if (url !== null && !URL.canParse(url)) {
    row.problem('url', `${inQuotes(url)} is no address; write it as https://example.com/page`);
  }
  return {
    type: row.word('type', notificationTypes) ?? 'success',
    icon: row.required('icon'),
    message: row.withoutToken('message', row.required('message')),
    url,
  };
}

async function look(
  client: LookingClient,
  target: Target<NotifyParameters>,
  signal?: AbortSignal,
): Promise<ListSighting> {
  const record = await readUser(client, target, 'notifications', signal);
  const seen = sightingOfUser(record);
  const list = relatedIn(record, 'notifications');
  if (list === undefined) return { ...seen, ...hiddenList };
  const { type, message } = target.parameters;
  const same = (each: ApiRecord): boolean =>
    textOf(each['message'])?.trim() === message && (each['type'] === undefined || each['type'] === type);
  return { ...seen, shown: true, ...sortedOut(list, target.token, same) };
}
