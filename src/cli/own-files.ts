/** Files that no output may be written over. */
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { keyFiles } from '../journal/signing-key.ts';
import { UsageError } from '../model/errors.ts';
import type { Settings } from '../settings/settings.ts';

/** A slip of the hand must not put an export in the place of the mirror, or of the journal, which nothing can rebuild. */
export function refuseOwnFiles(path: string, { store }: Settings): void {
  const target = statSync(path, { throwIfNoEntry: false });
  const files = [store.mirror, store.journal].flatMap((each) => [each, `${each}-wal`, `${each}-shm`]);
  for (const own of [...files, ...Object.values(keyFiles(store.journal))]) {
    const found = statSync(own, { throwIfNoEntry: false });
    const same = target !== undefined && found !== undefined && target.ino === found.ino && target.dev === found.dev;
    // Also one that is not there yet, such as the journal before the first write.
    if (!same && resolve(path) !== resolve(own)) continue;
    throw new UsageError(`${path} is a file of admin-mirror itself, and would be replaced`, {
      advice: 'Name another file.',
    });
  }
}
