/** Giving back the memory of bytes that are done with. */

/**
 * Gives the memory back at once; nobody may look at the bytes again. The collector looks at what it manages itself, and
 * lets half-megabytes outside of it gather by the hundred. Memory that others share is left to it.
 */
export function releaseBytes({ buffer, byteLength }: Uint8Array): void {
  if (buffer.byteLength === byteLength) (buffer as ArrayBuffer).transfer(0);
}
