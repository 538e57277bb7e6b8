// @module-tag full
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { newUser } from '../support/bulk.ts';
import { bulkWorld, made } from '../support/bulk-cli.ts';
import { startConsole } from '../support/console.ts';

/** What each column of the form is set to. */
const chosenIn = (text: string): Record<string, string> =>
  Object.fromEntries(
    [...text.matchAll(/<select name="of:(\w+)">([^]*?)<\/select>/g)].map(([, name = '', options = '']) => [
      name,
      /value="([^"]*)"\s+selected/.exec(options)?.[1] ?? '',
    ]),
  );

async function office() {
  const world = await startConsole({ sandbox: { users: 5, emails: 5, now: Date.now() } });
  const clerk = await world.browser('carla', ['maker']);
  const users = [newUser(world.sandbox, 10), newUser(world.sandbox, 20)];
  const upload = async (text: string, action = 'balance'): Promise<string> =>
    (await clerk.upload('/batches', { action }, 'liste.csv', text)).headers.get('location') ?? '';
  const read = async (place: string): Promise<string> => (await clerk.get(place)).text();
  return { ...world, clerk, users, upload, read };
}

test('a sheet with columns of its own is read as the person says; the next one with the same columns is not asked about', async () => {
  const { clerk, users, upload, read } = await office();
  const sheet = (amount: number) =>
    `Kundennr,Name,Aktion,Betrag,Grund\n${users.map((user) => `${user},Kim,add,${amount},Kulanz\n`).join('')}`;
  const place = await upload(sheet(5));
  expect(place).toMatch(/^\/batches\/uploads\//);
  const asked = await read(place);
  expect(asked).toContain('Which column is which?');
  expect(asked).toContain(`Kundennr (${users.join(', ')})`);
  const guess = { user_id: 'Kundennr', type: 'Aktion', amount: 'Betrag', description: 'Grund' };
  expect(chosenIn(asked)).toMatchObject({ ...guess, email: '', username: '', expected_balance: '' });
  const form = Object.fromEntries(Object.entries(chosenIn(asked)).map(([name, from]) => [`of:${name}`, from]));
  const planned = (await clerk.post(place, form)).headers.get('location') ?? '';
  const batch = await read(planned);
  expect(batch).toContain('add: 2 rows, 10.00');
  expect(batch).toContain('&quot;Kundennr&quot; as user_id');
  const next = await upload(sheet(6));
  expect(next).toMatch(/^\/batches\/\d/);
  expect(await read(next)).toContain('add: 2 rows, 12.00');
});

test.each([
  ['is damaged', '{"balance": '],
  ['is of another form', '{"balance": 5}'],
])('if what is remembered of earlier sheets %s, the question says so, once', async (_, damaged) => {
  const { clerk, folder, users, upload, read } = await office();
  const sheet = (amount: number) => `Wer,Wieviel\n${users.map((user) => `${user},${amount}\n`).join('')}`;
  const file = join(folder, 'data', 'sheet-layouts.json');
  expect(await read(await upload(sheet(5)))).not.toContain('What was remembered');
  writeFileSync(file, damaged);
  const place = await upload(sheet(5));
  expect(await read(place)).toMatch(
    /What was remembered of earlier sheets is lost: .*sheet-layouts\.json is damaged\./,
  );
  await clerk.post(place, { 'of:user_id': 'Wer', 'of:amount': 'Wieviel', 'of:type': '=add' });
  expect(await read(await upload(`Kunde,Wieviel\n${users[0]},5\n`))).not.toContain('What was remembered');
  expect(await upload(sheet(6))).toMatch(/^\/batches\/\d/);
});

test('values say what a column is if its name does not, and a column that all rows share can be left out of the sheet', async () => {
  const { clerk, users, upload, read } = await office();
  const place = await upload(`Wer;Wieviel\n${users.map((user) => `${user};5,50\n`).join('')}`);
  const asked = await read(place);
  expect(chosenIn(asked)).toMatchObject({ user_id: 'Wer', amount: 'Wieviel', type: '' });
  const form = { 'of:user_id': 'Wer', 'of:amount': 'Wieviel', 'of:type': '=add' };
  // How the amounts are meant is the next question.
  const second = (await clerk.post(place, form)).headers.get('location') ?? '';
  expect(await read(second)).toContain('How are the amounts meant?');
  const planned = (await clerk.post(second, { mark: 'comma' })).headers.get('location') ?? '';
  expect(await read(planned)).toContain('add: 2 rows, 11.00');
});

test('one column cannot be two things, and the form can be left', async () => {
  const { clerk, users, upload } = await office();
  const place = await upload(`Wer,Wieviel\n${users[0]},5\n`);
  const twice = await clerk.post(place, { 'of:user_id': 'Wer', 'of:amount': 'Wer', 'of:type': '=add' });
  expect([twice.status, await twice.text()]).toEqual([422, expect.stringContaining('cannot be two things')]);
  const left = await clerk.post(place, { mark: 'none' });
  expect([left.status, await left.text()]).toEqual([422, expect.stringContaining('nothing was planned')]);
  expect((await clerk.get(place)).status).toBe(404);
});

test('a template is there as a workbook that can be uploaded as it is', async () => {
  const { clerk, read } = await office();
  const template = await clerk.get('/batches/templates/balance.xlsx');
  expect(template.headers.get('content-type')).toContain('spreadsheetml');
  const bytes = new Uint8Array(await template.arrayBuffer());
  const place = (await clerk.upload('/batches', { action: 'balance' }, 'balance.xlsx', bytes)).headers.get('location');
  // The sandbox here has no users 42 to 44; everything else is right.
  expect(await read(place ?? '')).toContain('there is no user 42');
});

test('`bulk run` takes the same as --column', async () => {
  const { bulk, sandbox, file } = await bulkWorld();
  const name = file(`Kundennr,Betrag\n${newUser(sandbox, 10)},5\n`);
  const run = (...columns: readonly string[]) =>
    bulk(['run', 'balance', name, '--yes', ...columns.flatMap((each) => ['--column', each])]);
  const wrong = await run('Summe=amount');
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('does not name a column of')]);
  expect((await run('Kundennr=user_id', 'Betrag=amount', '=add=type')).code).toBe(0);
  expect(made(sandbox)).toBe(1);
});
