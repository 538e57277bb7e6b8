import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { counted } from '../../src/model/text.ts';
import { filesUnder, projectFolder } from '../support/documents.ts';

test('one is singular, and all other numbers are plural', () => {
  expect([0, 1, 2, 1_234].map((count) => counted(count, 'window'))).toEqual([
    '0 windows',
    '1 window',
    '2 windows',
    '1,234 windows',
  ]);
  expect([counted(1n, 'retry', 'retries'), counted(2, 'retry', 'retries')]).toEqual(['1 retry', '2 retries']);
});

test('no other code in src forms plurals', () => {
  const others = filesUnder('src').filter((file) => {
    const text =
      file.endsWith('.ts') && !file.endsWith('/counted.ts') ? readFileSync(join(projectFolder, file), 'utf8') : '';
    return /=== 1 \? '1 |=== 1 \? '(\w+)' : '\1s'|=== 1 \? '' : 's'/.test(text);
  });
  expect(others).toEqual(['src/sandbox/envelope.ts']);
});
