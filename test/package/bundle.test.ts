import { readdirSync, readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { commandFile } from '../support/command-file.ts';
import { textOf } from '../support/documents.ts';

const folder = join(dirname(commandFile), '../dist/command');

test('`status` starts fast: the file that it needs imports no package', () => {
  const [start = ''] = readdirSync(folder).filter((name) => /^start-.*\.js$/.test(name));
  const text = readFileSync(join(folder, start), 'utf8');
  expect([...text.matchAll(/^import .*"([^."][^"]*)";$/gm)].map(([, target]) => target)).toEqual([]);
});

test('the bundle imports nothing that does not come with the package', () => {
  const { dependencies } = JSON.parse(textOf('package.json')) as { readonly dependencies: Record<string, string> };
  const imported = readdirSync(folder)
    .filter((name) => name.endsWith('.js'))
    .flatMap((name) => {
      const text = readFileSync(join(folder, name), 'utf8');
      const named = text.matchAll(/^(?:import|export)\b[^;'"]*["']([^."'][^"']*)["'];?$/gm);
      const later = text.matchAll(/\bimport\(["']([^."'][^"']*)["']\)/g);
      return [...named, ...later].map(([, target = '']) => target);
    });
  const packages = new Set(
    imported.filter((name) => !isBuiltin(name)).map((name) => /^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0]),
  );
  expect(packages.has('fastify')).toBe(true);
  expect([...packages].filter((name) => name === undefined || !(name in dependencies))).toEqual([]);
});
