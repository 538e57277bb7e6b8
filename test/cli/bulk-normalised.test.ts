/** Servers that keep a value in another form than they were sent: composed letters, other capitals, fewer blanks. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { behindProxy, type Exchange } from '../support/altering-proxy.ts';
import { bulkWorld, made } from '../support/bulk-cli.ts';
import { newUser } from '../support/bulk.ts';

const fixture = (name: string): string => readFileSync(join(import.meta.dirname, '../fixtures', name), 'utf8');

type Form = (text: string) => string;
const composed: Form = (text) => text.normalize('NFC');
const tidied: Form = (text) => composed(text).trim().replaceAll(/ +/g, ' ').toLowerCase();
const titled: Form = (text) => tidied(text).replaceAll(/(?<=^| )\p{L}/gu, (letter) => letter.toUpperCase());

/** A server that shows every name in this form. */
async function normalising(form: Form) {
  const world = await bulkWorld();
  const alter = ({ body, path }: Exchange) => {
    if (!path.startsWith('/api/v1/users')) return {};
    const forms = (key: string, value: unknown): unknown =>
      typeof value === 'string' && /^(?:first_name|last_name|username|email)$/.test(key) ? form(value) : value;
    return { body: JSON.stringify(JSON.parse(body, forms)) };
  };
  const { url } = await behindProxy(world.sandbox, alter);
  const environment = { ...world.environment, ADMIN_MIRROR_BASE_URL: url };
  const bulk: typeof world.bulk = (args, more) => world.bulk(args, { environment, ...more });
  for (const id of [5, 6, 7, 21, 22, 24, 25, 31, 32]) {
    world.sandbox.control.remove('users', id);
    world.sandbox.control.insert('users', { id, first_name: 'Old', last_name: 'Name', username: `old${id}` });
  }
  return { ...world, bulk };
}

test.each<[string, string, Form, string]>([
  ['update-decomposed.csv', 'composed letters', composed, 'the server has first_name in another form of Unicode'],
  ['update-names.csv', 'title case', titled, 'the server has last_name as "Van Der Berg"'],
  ['update-names.csv', 'lower case', tidied, 'the server has first_name as "ludwig", last_name as "van der berg"'],
  ['update-usernames.csv', 'lower case', tidied, 'the server has first_name as "ana maria", username as "ana.berg"'],
])('update with %s is applied by a server that keeps %s, with the difference', async (name, _, form, difference) => {
  const { bulk, file, sandbox } = await normalising(form);
  const { code, report } = await bulk(['run', 'update', file(fixture(name)), '--yes', '--json']);
  expect([code, report().counts.applied, made(sandbox)]).toEqual([0, 2, 2]);
  const { stdout } = await bulk(['status', report().batch, '--rows', '--json']);
  const { plan } = JSON.parse(stdout) as { plan: { problem: string | null }[] };
  expect(plan[0]?.problem).toBe(difference);
});

test('a value that the server changed in substance still needs a person', async () => {
  const { bulk, file } = await normalising((text) => text.slice(0, 3));
  const { code, report } = await bulk(['run', 'update', file('user_id,first_name\n21,Ludwig\n'), '--yes', '--json']);
  expect([code, report().counts.unknown]).toEqual([8, 1]);
});

test.each<[string, Form, string]>([
  [
    'composed letters',
    composed,
    'the server has email in another form of Unicode, first_name in another form of Unicode',
  ],
  [
    'lower case',
    tidied,
    'the server has email in another form of Unicode, username as "jose", first_name as "josé", last_name as "van berg"',
  ],
])('create is applied by a server that keeps %s, with the difference', async (_, form, difference) => {
  const { bulk, file, sandbox } = await normalising(form);
  newUser(sandbox, 1);
  const [first, email] = ['José', 'josé@example.com'].map((text) => text.normalize('NFD'));
  const text = `first_name,last_name,username,email\n${first},van  Berg,Jose,${email}\n`;
  const { code, report } = await bulk(['run', 'create', file(text), '--yes', '--json']);
  expect([code, report().counts.applied]).toEqual([0, 1]);
  const { stdout } = await bulk(['status', report().batch, '--rows', '--json']);
  const { plan } = JSON.parse(stdout) as { plan: { problem: string | null }[] };
  expect(plan[0]?.problem).toBe(difference);
});
