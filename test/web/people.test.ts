// @module-tag full
import { expect, test } from 'vitest';
import { startConsole } from '../support/console.ts';

const password = 'correct horse battery staple';

test('an account that is refused is put right in the form that was sent; the advice leads to a page, not to a terminal', async () => {
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
  expect(last).toContain('Make somebody else an admin first on the page People.');
  expect(`${shown}${last}`).not.toContain('command line');
});

test('a change that there is not is no page, also where it is called as what every object has', async () => {
  const { browser } = await startConsole();
  const root = await browser('root');
  for (const what of ['nothing', '__proto__', 'constructor', 'toString']) {
    const { status } = await root.post(`/people/root/${what}`);
    expect({ what, status }).toEqual({ what, status: 404 });
  }
});
