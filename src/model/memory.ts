/** The memory of this process: a module of its own, since loading what it needs takes two milliseconds of every start. */
import { setFlagsFromString } from 'node:v8';

/**
 * The collector lets the heap grow to many times what lives on. From now on young objects keep the room that loading the
 * program has made, and what became old is looked through whenever it has grown by so much. It takes up to a twentieth more of the
 * processor.
 */
export function keepHeapSmall(growthPercent: number): void {
  keepYoungHeapSmall();
  setFlagsFromString(`--heap-growing-percent=${growthPercent}`);
}

/** The first half of that, which costs nothing: else the room for young objects doubles whenever a few outlive it. */
export function keepYoungHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}

/**
 * Gives the memory back at once; nobody may look at the bytes again. The collector looks at what it manages itself, and
 * lets half-megabytes outside of it gather by the hundred. Memory that others share is left to it.
 */
export function releaseBytes({ buffer, byteLength }: Uint8Array): void {
  if (buffer.byteLength === byteLength) (buffer as ArrayBuffer).transfer(0);
}

/**
 * A body is looked through in texts of so many bytes. V8 maps memory anew for each text that is much longer, and gives it back
 * to the system after: for a page of half a megabyte this takes longer than to look through it.
 */
export const pieceBytes = 50_000;
