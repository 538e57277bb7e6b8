import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { consoleWords } from '../../src/web/words.ts';
import { projectFolder } from '../support/documents.ts';
import { html, prose } from '../../src/web/html.ts';

test.each([
  ['Name one with `--sheet`: "May".', 'Name one with the name of the sheet, under “More”: "May".'],
  ['`admin-mirror people list` shows who is.', 'The page People shows who is.'],
  ['None. `admin-mirror bulk status` lists all.', 'None. The page Batches lists all.'],
  ['Continue it with `admin-mirror bulk resume b1`.', 'Continue it with “Go on” on the page of batch b1.'],
  ['Say so: `admin-mirror bulk resolve b1 --row 3 --applied --reason "…"`.', 'Say so: the page of row 3 of batch b1.'],
  ['Then run `admin-mirror sync`.', 'Then run “Sync” on the page Runs.'],
  [
    'Run `admin-mirror forget 7`, or `npm`.',
    'Run <code>admin-mirror forget 7</code> on the command line, or <code>npm</code>.',
  ],
])('a page of the console shows %j as %j', (said, shown) => {
  expect(String(html`${prose(said)}`).replaceAll('&quot;', '"')).toBe(shown);
});

test('every command that a message names has words in the console', () => {
  const files = globSync('src/{bulk,journal,people,api,worker,store,mirror,model}/**/*.ts', { cwd: projectFolder });
  const named = files.flatMap((file) => {
    // What a message puts in is a word like any other; in one place it is `apply` or `resume`.
    const text = readFileSync(join(projectFolder, file), 'utf8')
      .replaceAll(/\$\{[^}]*\}/g, 'x')
      .replaceAll('bulk x', 'bulk apply');
    return [...text.matchAll(/\\?`(admin-mirror [^`]*?)\\?`/g)].map(([, command = '']) => command);
  });
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((command) => consoleWords(command) === undefined)).toEqual([]);
});

test('a message loses the addresses of requests, and the names that the system has for errors', () => {
  const said =
    'PUT https://shop.example/api/v1/users/7/update-balance was lost: it was reset (ECONNRESET), twice (in all); ' +
    'GET https://shop.example/api/v1/emails?date_range=2026-01-01,3000-01-01&page=1, GET https://shop.example/.';
  expect(String(html`${prose(said)}`)).toBe(
    'the request was lost: it was reset, twice (in all); the request, the request.',
  );
});
