/** Folders of ours: for their owner alone, whatever the umask. Nothing else in the program makes a folder. */
import { mkdirSync } from 'node:fs';

const ownerAlone = 0o700;

/** Makes the folder and those that lead to it; one that is there stays as it is. */
export function makeFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: ownerAlone });
}

/** Makes the folder, and throws where something has that name: what others have prepared is never used. */
export function makeNewFolder(path: string): void {
  mkdirSync(path, { mode: ownerAlone });
}
