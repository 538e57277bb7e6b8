/** Whether this user may use a file so. */
import { accessSync } from 'node:fs';

/** @param mode `constants.W_OK` and the like of node:fs; false for a file that is not there */
export function mayAccess(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
}
