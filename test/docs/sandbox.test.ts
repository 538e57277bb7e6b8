import { expect, test } from 'vitest';
import { sandboxDocument } from '../support/sandbox-document.ts';

test('docs/sandbox.md shows the current switches (vitest -u writes it again)', async () => {
  await expect(sandboxDocument()).toMatchFileSnapshot('../../docs/sandbox.md');
});
