/** The data dictionary of the history: what every row was before it changed or went. */
import { type ResourceName, resourceNames, resourceOf } from '../model/resources.ts';
import { column } from './dictionary-bookkeeping.ts';
import type { TableEntry } from './dictionary.ts';

const examples: Readonly<Record<ResourceName, string>> = {
  users:
    "SELECT id, valid_to AS changed_at, record ->> 'username' AS username, record ->> 'balance' AS balance FROM users_history ORDER BY id, valid_to",
  packages:
    "SELECT id, valid_from, valid_to, record ->> 'status' AS status FROM packages_history ORDER BY id, valid_to",
  emails:
    "SELECT id, valid_to AS deleted_at, record ->> 'subject' AS subject FROM emails_history WHERE change = 'deleted' ORDER BY valid_to",
  coupons:
    "SELECT id, valid_to AS deleted_at, record ->> 'code' AS code FROM coupons_history WHERE change = 'deleted' ORDER BY valid_to",
};

export const historyTables: readonly TableEntry[] = resourceNames.map((name) => ({
  name: `${name}_history`,
  kind: 'table',
  summary: `Every earlier version of a row of ${name}, in the order in which they ended. \`export ${name} --as-of\` puts them together again.`,
  columns: [
    column('id INTEGER', `the ${resourceOf(name).singular}; one may have many versions`),
    column(
      'change TEXT',
      'what ended the version: updated, another took its place; deleted, the record left the table',
    ),
    column('valid_from TEXT', 'from when on the mirror held it: the _changed_at of the row'),
    column('valid_to TEXT', 'when the mirror saw the change; it no longer held the version then'),
    {
      ...column('record TEXT', 'the row as it was: every column of the table but _changed_at'),
      type: 'TEXT (JSON)',
    },
  ],
  example: examples[name],
}));
