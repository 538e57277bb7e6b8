import { expect, test } from 'vitest';
import { html, prose } from '../../src/web/html.ts';

test.each([
  ['Name one with `--sheet`: "May".', 'Name one with the name of the sheet, under “More”: "May".'],
  ['`admin-mirror people list` shows who is.', 'The page People shows who is.'],
  ['None. `admin-mirror bulk status` lists all.', 'None. The page Batches lists all.'],
  ['Continue it with `admin-mirror bulk resume b1`.', 'Continue it with “Go on” on the page of batch b1.'],
  ['Say so: `admin-mirror bulk resolve b1 --row 3 --applied --reason "…"`.', 'Say so: the page of row 3 of batch b1.'],
  ['Then run `admin-mirror sync`.', 'Then run “Sync” on the page Runs.'],
  [
    'Run `admin-mirror sync --allow-deletions`, or `npm`.',
    'Run <code>admin-mirror sync --allow-deletions</code> on the command line, or <code>npm</code>.',
  ],
])('a page of the console shows %j as %j', (said, shown) => {
  expect(String(html`${prose(said)}`).replaceAll('&quot;', '"')).toBe(shown);
});
