import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectFolder } from '../support/documents.ts';
import { sandboxDocument } from '../support/sandbox-document.ts';

test('docs/sandbox.md shows the switches as they are (vitest -u writes it anew)', async () => {
  await expect(sandboxDocument()).toMatchFileSnapshot('../../docs/sandbox.md');
});

test('docs/sandbox.md lists every control route', () => {
  const code = readFileSync(join(projectFolder, 'src/sandbox/control.ts'), 'utf8');
  const routes = [...code.matchAll(/add\('[A-Z]+', '(\/[^']*)'/g)].map(([, route = '']) => route);
  expect(routes.length).toBeGreaterThan(15);
  const document = sandboxDocument();
  const missing = routes.filter((route) => !document.includes(`/control${route.replaceAll(/:(\w+)/g, '{$1}')}`));
  expect(missing).toEqual([]);
});
