import SqliteDatabase from 'better-sqlite3';
import { expect, test } from 'vitest';
import { hourMs } from '../../src/model/time.ts';
import { startConsole } from '../support/console.ts';
import { sync } from '../support/mirror.ts';

const people = [
  [11, 'xanthe.farquaad@mail.example', 'xfarquaad', 'Xánthe', 'Farquaad'],
  [12, 'Xanthe.Leeq@mail.example', 'leeq_2', 'Xanthe', 'Leeq'],
  [13, 'o%x_y@mail.example', 'odd"name', 'Zoë', "O'Hara"],
] as const;

async function worldWithPeople() {
  const console = await startConsole({ sandbox: { users: 40 } });
  const { control } = console.sandbox;
  for (const [id, email, username, first_name, last_name] of people) {
    control.update('users', id, { email, username, first_name, last_name });
  }
  control.advanceClock(hourMs);
  await sync(console.sandbox, console.file, { mode: 'full' });
  return console;
}

/** The ids that the search finds: of the page it opens, or of its list. */
async function idsOf(response: Response): Promise<number[]> {
  const to = response.headers.get('location');
  const text = to ?? (await response.text());
  return [...text.matchAll(/\/data\/users\/(\d+)/g)].map(([, id]) => Number(id)).toSorted((a, b) => a - b);
}

const find = (text: string): string => `/find?${new URLSearchParams({ q: text }).toString()}`;

const searches: readonly (readonly [text: string, ids: readonly number[]])[] = [
  ['11', [11]],
  ['xanthe.farquaad@mail.example', [11]],
  ['XANTHE.FARQUAAD@MAIL', [11]],
  ['xanthe@', []],
  ['xfarquaad', [11]],
  ['farq', [11]],
  ['xanthe', [11, 12]],
  ['leeq xanthe', [12]],
  ['leeq', [12]],
  ["o'hara", [13]],
  ['o%x_y@mail.example', [13]],
  ['odd"name', [13]],
  ['%', []],
  ['nobody-of-this-name', []],
];

test('a person is found by id, email, or words of the names, before the mirror has an index of them and after', async () => {
  const { browser, file } = await worldWithPeople();
  const { get } = await browser('ann', ['analyst']);
  const all = async () => Promise.all(searches.map(async ([text]) => [text, await idsOf(await get(find(text)))]));
  expect(await all()).toEqual(searches);
  const database = new SqliteDatabase(file);
  // SQLite from before 3.42, as many machines have it, cannot read the next format, nor write a table with such an index.
  expect(database.prepare("SELECT v FROM users_search_config WHERE k = 'version'").pluck().get()).toBe(4);
  database.exec(`DROP TABLE users_search; DROP TRIGGER users_search_inserted; DROP TRIGGER users_search_updated;
    DROP TRIGGER users_search_deleted`);
  database.close();
  expect(await all()).toEqual(searches);
});

test('who was renamed is found by the new name alone, and who is gone is not found', async () => {
  const { browser, sandbox, file } = await worldWithPeople();
  sandbox.control.update('users', 11, { last_name: 'Quillfeather' });
  sandbox.control.remove('users', 12);
  sandbox.control.insert('users', { first_name: 'Newcomer', email: 'new@mail.example' });
  sandbox.control.advanceClock(hourMs);
  await sync(sandbox, file, { mode: 'full' });
  const { get } = await browser('ann', ['analyst']);
  const found = async (text: string) => idsOf(await get(find(text)));
  expect(await found('quillfeather')).toEqual([11]);
  expect(await found('leeq')).toEqual([]);
  expect(await found('newcomer')).toHaveLength(1);
});

test('an account that may not see data about people finds a person by the id alone', async () => {
  const { browser } = await worldWithPeople();
  const { get } = await browser('rita', ['reader']);
  expect(await idsOf(await get(find('11')))).toEqual([11]);
  for (const text of ['xanthe', 'xfarquaad', 'xanthe.farquaad@mail.example', 'farq']) {
    const response = await get(find(text));
    expect([text, response.status, await idsOf(response)]).toEqual([text, 200, []]);
  }
  const { get: nobody } = await browser('norole', []);
  expect((await nobody(find('11'))).status).toBe(403);
  expect(await (await nobody('/')).text()).not.toContain('role="search"');
});
