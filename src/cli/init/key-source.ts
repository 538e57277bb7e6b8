/** Where the key comes from, now and in each later run. */
import { closeSync, existsSync, fchmodSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { FileError } from '../../model/errors.ts';
import { explainFileError } from '../../model/file-error.ts';
import { makeFolder } from '../../model/folder.ts';
import { readRegularFile } from '../../model/read-file.ts';
import type { Secret } from '../../model/secret.ts';
import { profileVariable } from '../../settings/profiles.ts';
import { typedKey } from '../../settings/server.ts';
import { credentialsWord } from '../../settings/settings.ts';

export type KeySource =
  | { readonly kind: 'environment' }
  /** As it will stand in the config file: relative to the working folder, or absolute. */
  | { readonly kind: 'file'; readonly file: string }
  | { readonly kind: 'credential'; readonly name: string };

/** What `api.key_file` will be; null where there is none. */
export function keyFileOf(source: KeySource): string | null {
  switch (source.kind) {
    case 'environment':
      return null;
    case 'file':
      return source.file;
    case 'credential':
      return `${credentialsWord}/${source.name}`;
    default:
      return source satisfies never;
  }
}

/** The variable that holds the key itself. */
export function keyVariable(profile: string | undefined): string {
  return profile === undefined ? 'ADMIN_MIRROR_API_KEY' : profileVariable('api.key', profile);
}

/** The key that the file holds; undefined where there is no such file. Throws a FileError or a UsageError. */
export function keyIn(folder: string, file: string): Secret | undefined {
  const path = resolve(folder, file);
  if (!existsSync(path)) return undefined;
  try {
    return typedKey(readRegularFile(path).bytes.toString('utf8'));
  } catch (error) {
    throw explainFileError(error, 'read the key file', path) ?? error;
  }
}

/** Writes the key into a new file that its owner alone can read; gives what takes it back. Throws a FileError. */
export function writeKey(folder: string, file: string, key: Secret): () => void {
  const path = resolve(folder, file);
  try {
    makeFolder(dirname(path));
    const handle = openSync(path, 'wx', 0o600);
    try {
      fchmodSync(handle, 0o600);
      writeSync(handle, `${key.reveal()}\n`);
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
      throw new FileError(`${path} is there already, and was left as it is`, { advice: 'Name another file.' });
    }
    throw explainFileError(error, 'write the key file', path) ?? error;
  }
  return () => rmSync(path, { force: true });
}
