/** Whether there is room for what is about to be written, before it is begun. */
import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { bytesText } from '../../model/text.ts';
import { FileError } from '../../model/errors.ts';

/** Bytes that this user may still write to the disk of the folder; undefined where that is not known. */
export type FreeSpace = (folder: string) => number | undefined;

/** As the system says; of a folder that is not there yet, that of the nearest one that is. */
export const freeSpace: FreeSpace = (folder) => {
  for (let at = folder; ; at = dirname(at)) {
    try {
      const { bavail, bsize } = statfsSync(at);
      return bavail * bsize;
    } catch {
      // Not there, or its system does not say.
      if (dirname(at) === at) return undefined;
    }
  }
};

/** What is smaller is not checked: any disk that works at all has it. */
const worthChecking = 32e6;

/** Estimates are rough, and a disk without a free byte is of no use to anybody. */
const margin = 1.1;

/** Throws a FileError where there is no room. @param doing to be read after "no room to": `make a snapshot` */
export function requireSpace(doing: string, folder: string, bytes: number, free: FreeSpace = freeSpace): void {
  const needed = Math.ceil(bytes * margin);
  if (needed < worthChecking) return;
  const there = free(folder);
  if (there === undefined || there >= needed) return;
  throw new FileError(
    `no room to ${doing}: it needs about ${bytesText(needed)} on the disk of ${folder}, where ${bytesText(there)} are free`,
    { advice: `Make room for ${bytesText(needed - there)} more, or use another disk. What is there is unharmed.` },
  );
}
