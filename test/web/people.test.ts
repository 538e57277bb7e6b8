// @module-tag full
import { expect, test } from 'vitest';
import { roles, roleWords } from '../../src/model/actor.ts';
import { hashPassword } from '../../src/people/sign-in.ts';
import { startConsole } from '../support/console.ts';
import { newAccount, quickCost } from '../support/people.ts';

const password = 'correct horse battery staple';

test('a refused new account can be corrected in its form, and the advice names a page, not a command', async () => {
  const { browser } = await startConsole();
  const root = await browser('root');
  const refused = await root.post('/people', { name: 'root', role: 'maker', os_users: 'anna', new: password });
  const shown = await refused.text();
  expect([refused.status, shown]).toEqual([422, expect.stringContaining('there is an account root already')]);
  expect(shown).toContain('change that account: the page People shows it.');
  expect(shown).toMatch(/name="name"[^>]* value="root"/);
  expect(shown).toMatch(/value="maker" checked/);
  expect(shown).toMatch(/name="os_users"[^>]* value="anna"/);
  expect(shown).not.toContain(password);

  const last = await (await root.post('/people/root/roles', { role: 'reader' })).text();
  expect(last).toContain('Make somebody else an admin first, with the page People.');
  expect(`${shown}${last}`).not.toContain('command line');
});

test('an account that is locked after wrong passwords says so on its own page, too', async () => {
  const { browser, people } = await startConsole();
  const root = await browser('root');
  await people.add(newAccount('anna', { password: await hashPassword(password, quickCost) }));
  const nobody = await browser('', null);
  for (let count = 0; count < 5; count += 1) await nobody.post('/sign-in', { name: 'anna', password: 'wrong' });
  for (const path of ['/people', '/people/anna']) {
    expect({ path, shown: await (await root.get(path)).text() }).toEqual({
      path,
      shown: expect.stringMatching(/waits<\/span>\s+until/) as string,
    });
  }
});

test('what each role may do is shown beside the role, and on the page of each account that has it', async () => {
  const { browser } = await startConsole();
  const root = await browser('root');
  for (const path of ['/people', '/people/root']) {
    const shown = await (await root.get(path)).text();
    for (const role of roles) {
      expect(shown).toContain(`aria-describedby="role-${role}"`);
      expect(shown).toContain(`id="role-${role}">${roleWords[role]}<`);
    }
  }
  const carla = await browser('carla', ['maker']);
  const own = await (await carla.get('/me')).text();
  expect(own).toContain(roleWords.maker);
  expect(own).not.toContain(roleWords.admin);
  expect(await (await (await browser('nora')).get('/me')).text()).toContain('You have none.');
});

test('an unknown change of an account is a 404, even if it has the name of an object property', async () => {
  const { browser } = await startConsole();
  const root = await browser('root');
  for (const what of ['nothing', '__proto__', 'constructor', 'toString']) {
    const { status } = await root.post(`/people/root/${what}`);
    expect({ what, status }).toEqual({ what, status: 404 });
  }
});
