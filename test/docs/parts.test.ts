import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectFolder } from '../support/documents.ts';
import { hasMoreInFull } from '../support/part.ts';

const textsOf = (pattern: string) =>
  globSync(pattern, { cwd: join(projectFolder, 'test'), exclude: ['**/node_modules'] }).map(
    (file) => [file, readFileSync(join(projectFolder, 'test', file), 'utf8')] as const,
  );

test('only test files say what the full part adds, because .ci/run looks for it there', () => {
  const helpers = textsOf('**/*.ts').filter(
    ([file]) => !/\.test\.ts$|^vitest\.config\.ts$|^support\/part\.ts$/.test(file),
  );
  expect(helpers.length).toBeGreaterThan(50);
  expect(helpers.filter(([, text]) => /\/part\.ts'/.test(text)).map(([file]) => file)).toEqual([
    // It only checks which part runs.
    'support/count-reporter.ts',
  ]);
});

test.each([
  ["import { isFull } from '../support/part.ts';", true],
  ["test('all', { tags: ['full'] }, () => {", true],
  ['// @module-tag full', true],
  ["import { temporaryFolder } from '../support/temporary-folder.ts';\ntest('one', () => {", false],
])('%j in a test file means more in the full part: %s', (text, more) => {
  expect(hasMoreInFull(text)).toBe(more);
});
