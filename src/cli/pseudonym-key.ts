/** The file from which pseudonyms follow, where they shall be the same each time. */
import { randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import { UsageError } from '../model/errors.ts';
import { explainFileError } from '../model/file-error.ts';
import { readRegularFile } from '../model/read-file.ts';

/** Below this a key could be found out by trying. */
const leastBytes = 16;

/** Its content; where no file is named, one of this run alone, which nobody keeps. Throws a FileError or UsageError. */
export function readPseudonymKey(folder: string, name: string | undefined): Uint8Array {
  if (name === undefined) return randomBytes(32);
  const path = resolve(folder, name);
  let content: string;
  try {
    content = readRegularFile(path).bytes.toString('latin1').trimEnd();
  } catch (error) {
    throw explainFileError(error, 'read the key of the pseudonyms from', path) ?? error;
  }
  if (content.length >= leastBytes) return Buffer.from(content, 'latin1');
  throw new UsageError(
    `the key of the pseudonyms in ${path} has ${content.length} bytes; it needs ${leastBytes} or more`,
    {
      advice: 'Make one that nobody can guess: head -c 32 /dev/urandom | base64',
    },
  );
}

/** The names in a list such as `a,b`. Throws a UsageError where one is empty. */
export function namesOfFlag(flag: string, list: string): string[] {
  const names = list.split(',').map((name) => name.trim());
  if (names.includes('')) throw new UsageError(`${flag} has an empty name: "${list}"`);
  return names;
}
