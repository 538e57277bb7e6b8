import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { operations } from '../../src/model/operations.ts';
import { apiReference } from '../support/api-reference.ts';
import { resourceNames, resourceOf } from '../../src/model/resources.ts';

const file = fileURLToPath(new URL('../../docs/api.md', import.meta.url));
const update = process.env['UPDATE_DOCS'] === '1';

test('docs/api.md matches the descriptors (UPDATE_DOCS=1 writes it)', () => {
  if (update) writeFileSync(file, apiReference());
  expect(readFileSync(file, 'utf8')).toBe(apiReference());
});

test('the reference names every field, key, relation, operation and parameter', () => {
  const text = apiReference();
  const resources = resourceNames.map(resourceOf);
  const names = [
    ...resources.flatMap(({ fields }) => fields.map(({ name }) => name)),
    ...resources.flatMap(({ includes, filterKeys, sortKeys }) => [...(includes ?? []), ...filterKeys, ...sortKeys]),
    ...operations.flatMap(({ parameters, relations }) => [...parameters.map(({ name }) => name), ...relations]),
  ];
  expect(names.filter((name) => !text.includes(`\`${name}\``))).toEqual([]);
  for (const { method, path } of operations) expect(text).toContain(`### ${method} ${path}\n`);
});
