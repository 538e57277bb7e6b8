import { expect, test } from 'vitest';
import { inBrowser } from '../../src/web/html.ts';

const adopting = '“Compare and adopt” (behind “Compare with the server”)';

test.each([
  [
    'other sheets were not read: "Credit"; --sheet names the one to read',
    'other sheets were not read: "Credit"; name the one to read under "More" beside the sheet',
  ],
  ['Name one with --sheet, if it is meant: "May".', 'Name one under "More" beside the sheet, if it is meant: "May".'],
  [
    'this would delete in spite of orders; it also needs the flag --allow-force',
    'this would delete in spite of orders; tick that under "More" beside the sheet, too',
  ],
  [
    'the balance would change by 1234.56, more than bulk.max_row allows (1000)',
    'the balance would change by 1234.56, more than the limit of 1000 (bulk.max_row)',
  ],
  [
    'There are too few approvers. `admin-mirror people list` shows the accounts.',
    'There are too few approvers. The page People shows the accounts.',
  ],
  [
    '`admin-mirror people list` shows who is, and `admin-mirror people role` makes somebody one.',
    'The page People shows who is, and makes somebody one.',
  ],
  [
    'Where there is none, `admin-mirror bulk reconcile --adopt` reads the transactions; with `bulk reconcile b --adopt`, of this batch alone.',
    `Where there is none, ${adopting} reads the transactions.`,
  ],
  ['Then see with `admin-mirror query --explain` which', 'Then see with “Show its plan” on the page SQL which'],
  ['Do that. `admin-mirror schema` shows tables.', 'Do that. The page SQL shows tables.'],
  ['The newest is b; `admin-mirror bulk status` lists all.', 'The newest is b; the page Batches lists all.'],
  ['`admin-mirror bulk status` names that row.', 'The page Batches names that row.'],
  [
    'it was sent. Take it out, or send it again with --again --reason "…"',
    'it was sent. Take it out, or say why it is sent again, under "More" beside the sheet',
  ],
])('a page of the console shows %j as %j', (said, shown) => {
  expect(inBrowser(said)).toBe(shown);
});
