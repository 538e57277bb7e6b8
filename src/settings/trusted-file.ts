/** Whose settings are taken: they say where the key goes and which programs the worker runs. */
import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { UsageError } from '../model/errors.ts';
import type { ReadFile } from '../model/read-file.ts';

/**
 * Why settings must not be taken from the file; undefined where they may. Whoever can change the program can do worse, so
 * the owner of its own files is trusted like this user and root.
 * @param name what the error calls the file, as `the config file config/admin-mirror.yaml`
 */
export function distrust(
  name: string,
  { mode, uid, gid }: Pick<ReadFile, 'mode' | 'uid' | 'gid'>,
): UsageError | undefined {
  const user = process.getuid?.();
  if (user === undefined) return undefined;
  if (![user, 0, statSync(fileURLToPath(import.meta.url)).uid].includes(uid)) {
    return new UsageError(`${name} belongs to another user (${uid}), so its settings are not taken`, {
      advice: `If it is what you want, make it yours: chown ${user} on it. Else work in another folder.`,
    });
  }
  // A group that is called by its user's number is that user's alone: so do many systems make them.
  const byGroup = (mode & 0o020) !== 0 && gid !== uid;
  if (!byGroup && (mode & 0o002) === 0) return undefined;
  return new UsageError(`${name} can be changed by other users, so its settings are not taken`, {
    advice: 'See that it is as you want it, and run: chmod go-w on it.',
  });
}
