import { expect, onTestFinished, test } from 'vitest';
import { openSandbox } from '../../src/sandbox/sandbox.ts';
import { sandboxDocument } from '../support/sandbox-document.ts';

test('docs/sandbox.md shows the current switches (vitest -u writes it again)', async () => {
  await expect(sandboxDocument()).toMatchFileSnapshot('../../docs/sandbox.md');
});

test('docs/sandbox.md lists every control route', async () => {
  const sandbox = await openSandbox({ users: 5, emails: 5 });
  onTestFinished(() => sandbox.close());
  const routes = Object.keys(sandbox.control);
  expect(routes.length).toBeGreaterThan(15);
  const document = sandboxDocument();
  expect(routes.filter((route) => !new RegExp(`\`${route}[ \`]`).test(document))).toEqual([]);
});
