import { expect, test } from 'vitest';
import { startSandbox } from '../support/sandbox.ts';
import { sandboxDocument } from '../support/sandbox-document.ts';

test('docs/sandbox.md shows the current switches (vitest -u writes it again)', async () => {
  await expect(sandboxDocument()).toMatchFileSnapshot('../../docs/sandbox.md');
});

test('docs/sandbox.md lists every control route', async () => {
  const routes = Object.keys((await startSandbox()).control);
  expect(routes.length).toBeGreaterThan(15);
  const document = sandboxDocument();
  expect(routes.filter((route) => !new RegExp(`\`${route}[ \`]`).test(document))).toEqual([]);
});
