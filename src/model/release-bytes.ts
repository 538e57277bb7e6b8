/** Giving back the memory of bytes that are done with. */

/**
 * Gives the memory back at once; nobody may look at the bytes again. The collector looks at what it manages itself, and
 * lets half-megabytes outside of it gather by the hundred. The memory must be the bytes' own, no piece of a shared pool.
 */
export function releaseBytes(bytes: Uint8Array): void {
  (bytes.buffer as ArrayBuffer).transfer(0);
}
