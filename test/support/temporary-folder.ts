/** A folder that is removed when the test ends. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

export function temporaryFolder(): string {
  const folder = temporaryFolderNow();
  onTestFinished(() => folder.remove());
  return folder.path;
}

/** The same outside a test: the caller removes it. */
export function temporaryFolderNow(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'admin-mirror-test-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}
