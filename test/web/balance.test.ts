// @module-tag full
import { setTimeout } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { minuteMs } from '../../src/model/time.ts';
import { newUser } from '../support/bulk.ts';
import { made } from '../support/bulk-cli.ts';
import { startConsole } from '../support/console.ts';
import { invoke } from '../support/invoke.ts';
import { sync } from '../support/mirror.ts';

/** A mirror that knows a user with a balance of 10, and a clerk. */
async function office(config = 'bulk: {currency: EUR}\n') {
  const world = await startConsole({ sandbox: { users: 5, emails: 5, now: Date.now() }, config });
  const user = newUser(world.sandbox, 10);
  world.sandbox.control.advanceClock(minuteMs);
  await sync(world.sandbox, world.file);
  world.sandbox.control.advanceClock(minuteMs);
  const clerk = await world.browser('carla', ['maker']);
  const read = async (path: string): Promise<string> =>
    (await (await clerk.get(path)).text()).replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
  const change = (form: Record<string, string>) =>
    clerk.post(`/data/users/${user}/balance`, { type: 'add', amount: '5', reason: 'Refund', ...form });
  /** Sends the planned change, and waits for its end. */
  const send = async (place: string, typed: string): Promise<void> => {
    await clerk.post(`${place}/send`, { typed });
    while ((await read(place)).includes('It is being sent')) await setTimeout(10);
  };
  return { ...world, user, clerk, read, change, send };
}

test('one balance is changed from the page of the user by a batch of one row, and the page has the balance that follows', async () => {
  const { sandbox, folder, user, read, change, send } = await office();
  const page = `/data/users/${user}`;
  expect(await read(page)).toMatch(
    /Balance 10\.00 EUR 10\.00 EUR in the mirror, as of .* UTC ; no change was sent from here/,
  );
  const place = (await change({})).headers.get('location') ?? '';
  const plan = await read(place);
  expect(plan).toContain(`Balance of user ${user}: add 5`);
  expect(plan).toContain('10.00 EUR 15.00 EUR');
  expect(made(sandbox)).toBe(0);
  await send(place, '5');
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  const byHand = ['users', 'update-balance', String(user), '--type', 'remove', '--amount', '2', '--yes'];
  expect((await invoke(byHand, { folder, environment })).code).toBe(0);
  expect(await read(page)).toMatch(
    /Balance 13\.00 EUR 10\.00 EUR in the mirror, as of .* ; 2 changes were sent from here since/,
  );
  expect(sandbox.control.get('users', user)).toMatchObject({ balance: 13 });
  // The same again needs a reason.
  const again = await change({});
  const words = (await again.text()).replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
  expect([again.status, words]).toEqual([422, expect.stringContaining('this change was sent before, on ')]);
  expect(words).toContain('give the reason for sending it again, under “More” or “It was sent before”');
  expect(/sent before, on [^]*?Balance/.exec(words)?.[0]).not.toMatch(/file|sheet|jsonl/);
  expect(plan).not.toContain('jsonl');
  expect((await change({ again: 'another outage' })).status).toBe(303);
  expect(made(sandbox)).toBe(2);
});

test('the page says that the outcome of a change is not known', async () => {
  const { sandbox, user, read, change, send } = await office();
  sandbox.control.setBehaviour({ description_max: 9 });
  sandbox.control.faultNext({ fault: 'commit_reset', match: { method: 'PUT' } });
  await send((await change({})).headers.get('location') ?? '', '5');
  expect(await read(`/data/users/${user}`)).toMatch(
    /Balance 10\.00 EUR .* 1 change was sent from here since\. The outcome of 1/,
  );
});

test.each([
  [{ amount: 'five' }, 'that is no amount', 'value="Refund of March"'],
  [{ type: 'double' }, 'that is no amount', 'value="Refund of March"'],
  [{ reason: ' ' }, 'a reason is needed', 'value="5"'],
])('with %j nothing is planned, and the form keeps what was typed', async (form, words, kept) => {
  const { change, read } = await office();
  const refused = await change({ reason: 'Refund of March', ...form });
  const text = await refused.text();
  expect([refused.status, text]).toEqual([422, expect.stringContaining(words)]);
  expect(text).toContain(kept);
  expect(await read('/batches')).toContain('There are no batches yet');
});

test('above its bound it needs approval, and nobody but a maker has the form', async () => {
  const { change, read, browser, user } = await office('bulk: {approval: {balance: {row_amount: 3}}}\n');
  expect(await read((await change({})).headers.get('location') ?? '')).toContain('Another person must approve it');
  const analyst = await browser('ann', ['analyst']);
  expect(await (await analyst.get(`/data/users/${user}`)).text()).not.toContain('Change the balance');
  expect((await analyst.post(`/data/users/${user}/balance`, { type: 'add', amount: '1', reason: 'x' })).status).toBe(
    403,
  );
});

test('what a batch says of amounts has the currency, as everywhere', async () => {
  const config =
    'bulk: {currency: EUR, max_row: 5000, max_day: 1700, approval: {balance: {net: 1000, row_amount: 1000}}}\n';
  const { user, sandbox, clerk, read } = await office(config);
  const users = [user, newUser(sandbox, 10), newUser(sandbox, 10)];
  const changes = ['add,1', 'remove,12', 'add,1200'].map((change, at) => `${users[at]},${change},Refund\n`);
  const sheet = async (rows: string): Promise<string> => {
    const text = `user_id,type,amount,description\n${rows}`;
    return (await clerk.upload('/batches', { action: 'balance' }, 'credit.csv', text)).headers.get('location') ?? '';
  };
  const place = await sheet(changes.join(''));
  const page = await read(place);
  expect(page).toContain(`the balance of user ${users[1]} would be -2.00 EUR`);
  expect(page).toContain('more than 10 times the median of 12.00 EUR');
  expect(page).toContain('one row changes a balance by 1,200 EUR, more than 1,000 EUR');
  expect(page).toContain('the net total is 1,189 EUR, more than 1,000 EUR');
  expect(await read(await sheet(`${user},add,6000,Refund\n`))).toContain(
    'the balance would change by 6,000.00 EUR, more than bulk.max_row allows (5,000 EUR)',
  );
  const refused = await clerk.post(`${place}/send`, { typed: '1' });
  expect(await refused.text()).toContain('EUR');
});
