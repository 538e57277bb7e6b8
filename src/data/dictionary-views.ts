/** The data dictionary of the views that answer what analysts ask most. Days are UTC. */
import { column } from './dictionary-bookkeeping.ts';
import type { TableEntry } from './dictionary.ts';

export const analystViews: readonly TableEntry[] = [
  {
    name: 'users_live_age',
    kind: 'view',
    summary: 'The users that the server has, with how many whole days ago what happened to each; counted to now.',
    columns: [
      column('id INTEGER', 'the user'),
      column('username TEXT', 'user name'),
      column('email TEXT', 'email address'),
      column('status TEXT', 'status'),
      column('balance NUMERIC', 'balance'),
      column('verified INTEGER', '1 where the email address is verified'),
      column('days_old INTEGER?', 'since the sign-up'),
      column('days_since_seen INTEGER?', 'since the user was last seen'),
      column('days_since_login INTEGER?', 'since the last login'),
      column('days_since_change INTEGER', 'since a value of the row last changed in the mirror'),
    ],
    example: 'SELECT days_since_seen / 30 AS months_away, count(*) AS users FROM users_live_age GROUP BY 1 ORDER BY 1',
  },
  {
    name: 'users_by_day',
    kind: 'view',
    summary: 'How many users signed up on each day.',
    columns: [
      column('day TEXT?', 'the day, as 2026-03-11; null of users without a creation time'),
      column('users INTEGER', 'users created on it'),
      column('verified INTEGER', 'how many of them have a verified email address by now'),
    ],
    example: "SELECT * FROM users_by_day WHERE day >= date('now', '-14 days') ORDER BY day",
  },
  {
    name: 'emails_by_day',
    kind: 'view',
    summary: 'How many emails were made on each day.',
    columns: [
      column('day TEXT?', 'the day, as 2026-03-11; null of emails without a creation time'),
      column('emails INTEGER', 'emails made on it'),
      column('sent INTEGER?', 'how many of them are sent'),
      column('unsent INTEGER?', 'how many of them are not'),
    ],
    example: "SELECT * FROM emails_by_day WHERE day >= date('now', '-14 days') ORDER BY day",
  },
  {
    name: 'emails_by_user',
    kind: 'view',
    summary: 'How many emails each user was sent or is to be sent; users without any stand with 0.',
    columns: [
      column('user_id INTEGER', 'the user'),
      column('email TEXT', "the user's address of now"),
      column('emails INTEGER', 'emails of the user'),
      column('unsent INTEGER', 'how many of them are not sent'),
      column('last_created_at TEXT?', 'when the newest of them was made'),
    ],
    example: 'SELECT * FROM emails_by_user WHERE user_id IN (1, 2, 3)',
  },
  {
    name: 'emails_by_domain',
    kind: 'view',
    summary: 'How many emails go to each domain, in small letters.',
    columns: [
      column('domain TEXT?', 'what follows the @ of the receiver; null where there is no @'),
      column('emails INTEGER', 'emails to it'),
      column('unsent INTEGER?', 'how many of them are not sent'),
      column('users INTEGER', 'users whose emails they are'),
    ],
    example: 'SELECT * FROM emails_by_domain ORDER BY emails DESC LIMIT 10',
  },
];
