import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { dictionaryDocument } from '../support/dictionary-document.ts';
import { projectFolder, textOf } from '../support/documents.ts';

test('docs/data-dictionary.md shows every table of the mirror (UPDATE_DOCS=1 writes it again)', () => {
  const path = 'docs/data-dictionary.md';
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(join(projectFolder, path), dictionaryDocument());
  expect(textOf(path)).toBe(dictionaryDocument());
});
