/** Folders of ours: for their owner alone, whatever the umask. Nothing else in the program makes a folder. */
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

const ownerAlone = 0o700;

/**
 * Makes the folder and those that lead to it; one that is there stays as it is. One by one: where nothing can be made, as in
 * /proc, Node never comes back from making all of them at once.
 */
export function makeFolder(path: string): void {
  try {
    makeNewFolder(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && statSync(path).isDirectory()) return;
    const parent = dirname(path);
    if (code !== 'ENOENT' || existsSync(parent)) throw error;
    makeFolder(parent);
    makeNewFolder(path);
  }
}

/** Makes the folder, and throws where something has that name: what others have prepared is never used. */
export function makeNewFolder(path: string): void {
  mkdirSync(path, { mode: ownerAlone });
}
