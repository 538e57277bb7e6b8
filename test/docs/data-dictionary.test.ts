import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { dictionaryMarkdown, inventory } from '../../src/data/inventory.ts';
import { projectFolder, textOf } from '../support/documents.ts';

test('docs/data-dictionary.md is the output of `schema --format markdown` (UPDATE_DOCS=1 writes it again)', () => {
  const text = dictionaryMarkdown(inventory(undefined));
  const path = 'docs/data-dictionary.md';
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(join(projectFolder, path), text);
  expect(textOf(path)).toBe(text);
});
